"""Values that break parsers, and byte strings broken on purpose. All of it follows from the `Random` passed in."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

INTEGERS: Final = (
    *(0, 1, -1, 2, 3, 4, 7, 8, 15, 16, 31, 127, 128, 255, 256, 1023, 1024, 4096, 32767, 32768, -32768, 65535, 65536),
    *(2**24 - 1, 2**24, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32, 1_700_000_000_000),
    *(2**53, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30),
)
"""The edges of every width of integer, and beyond."""

NAMES: Final = (
    *("", " ", ".", "..", "../../../tmp/x", "/etc/passwd", "a/b", "a\\b", "C:\\x", "\0", "a\0b", "%2e%2e%2f", "~root"),
    *("%RETRY%", "%RETRY%../x", "%DLQ%", "%DLQ%g", "TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"),
    *("rmq_sys_x", "CID_RMQ_SYS_x", "a@b", "topic@group@x", "ü", "\u202egnp", "\ud800", "\U0001f600", "x" * 127),
    *("x" * 128, "x" * 255, "x" * 256, "%RETRY%" + "g" * 248, "n" * 5000, "\r\nHTTP/1.1 200", "\x1b[2J", "${jndi:x}"),
)
"""What is no name, or should not be anybody's."""

TEXTS: Final = (
    *NAMES,
    *("true", "TRUE", "null", "NaN", "1e999", "-0", "+5", " 5", "5 ", "٣", "0x10", "1_000", "5.0", "{}", "[]", "'"),
    *(
        "paid || shipped",
        "||",
        "a||" * 2000,
        "*",
        "[" * 500,
        '{"a":' * 500,
        "a\x01b\x02",
        "\x01",
        "\x02",
        "\x01\x02" * 99,
    ),
    *("KEYS\x01" + "k " * 3000 + "\x02", "DELAY\x01x\x02", "DELAY\x019999999999999999999\x02", "UNIQ_KEY\x01\x02"),
    *("TAGS\x01a\x02TAGS\x01b\x02", "WAIT\x01false\x02", "+message.type=FIFO,-x", "-", "+", ",", "+a=", "a;b;" * 50),
)


def integer(rng: Random, lowest: int = -(2**31), highest: int = 2**31 - 1) -> int:
    """Mostly a small one, now and then one at an edge."""
    draw = rng.random()
    if draw < 0.85:
        return rng.randrange(9)
    if draw < 0.97:
        return rng.choice(INTEGERS)
    return rng.randint(lowest, highest)


def text(rng: Random) -> str:
    draw = rng.random()
    if draw < 0.6:
        return rng.choice(TEXTS)
    if draw < 0.8:
        return str(rng.choice(INTEGERS))
    return "".join(map(chr, rng.choices(range(1, 0x250), k=rng.randrange(12))))


def junk(rng: Random, depth: int = 0) -> Any:
    """A JSON value of any kind."""
    draw = rng.randrange(8 if depth < 4 else 5)
    match draw:
        case 0:
            return integer(rng)
        case 1:
            return text(rng)
        case 2:
            return rng.choice((True, False, None))
        case 3:
            return rng.choice((0.5, -1.5, 1e300, 1e-300, float(2**53)))
        case 4:
            return {}
        case 5 | 6:
            return [junk(rng, depth + 1) for _ in range(rng.randrange(4))]
        case _:
            return {text(rng): junk(rng, depth + 1) for _ in range(rng.randrange(4))}


def noise(rng: Random, longest: int = 64) -> bytes:
    return rng.randbytes(rng.randrange(longest))


def mutated(rng: Random, data: bytes) -> bytes:
    """`data` with a few things done to it that networks, disks and attackers do."""
    broken = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        if not broken:
            return bytes(broken) + noise(rng)
        rng.choice(_MUTATIONS)(rng, broken)
    return bytes(broken)


def _flip(rng: Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(rng: Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] = rng.choice(b"\x00\x01\x7f\x80\xff\"{}[],:\\'0-9 ")


def _edge(rng: Random, data: bytearray) -> None:
    """An integer of some width, at any place, becomes one from the edges."""
    width, code = rng.choice(((2, ">H"), (4, ">I"), (4, ">I"), (8, ">Q")))
    at = rng.randrange(max(1, len(data) - width))
    data[at : at + width] = struct.pack(code, rng.choice(INTEGERS) % (1 << 8 * width))


def _nudge(rng: Random, data: bytearray) -> None:
    """A 32-bit length becomes a little longer or shorter."""
    if len(data) >= 4:
        at = rng.randrange(len(data) - 3)
        (value,) = struct.unpack_from(">I", data, at)
        struct.pack_into(">I", data, at, (value + rng.choice((-4, -1, 1, 4))) % (1 << 32))


def _truncate(rng: Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _remove(rng: Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randrange(1, 16)]


def _insert(rng: Random, data: bytearray) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = noise(rng, 16)


def _repeat(rng: Random, data: bytearray) -> None:
    """A piece comes twice, or many times: duplicate keys, doubled elements, deep nesting."""
    at = rng.randrange(len(data))
    piece = data[at : at + rng.randrange(1, 48)]
    data[at:at] = piece * rng.choice((1, 1, 2, 70))


def _exchange(rng: Random, data: bytearray) -> None:
    """Two pieces change places."""
    size = rng.randrange(1, 12)
    one, other = (rng.randrange(max(1, len(data) - size)) for _ in range(2))
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]


_MUTATIONS: Final[tuple[Callable[[Random, bytearray], None], ...]] = (
    *(_flip, _overwrite, _edge, _nudge, _truncate, _remove, _insert, _repeat, _exchange),
)
