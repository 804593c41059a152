"""What a slave and its master say to each other before the log is sent."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import FrameError
from rmqspark.replication.hello import (
    CHALLENGE,
    GREETING,
    HELLO_HEAD_BYTES,
    Acquaintance,
    Hello,
    challenge,
    challenged_with,
)
from rmqspark.replication.proof import PROOF_BYTES, proof
from rmqspark.replication.stream import REPORT

HELLO = Hello("broker-a", 1, "servers", bytes(range(32)))
MASTER_NONCE = bytes(range(32, 64))
MET = Acquaintance(MASTER_NONCE, HELLO)


def test_the_bytes_are_those_of_the_docs() -> None:
    """Another's slave can be written by docs/wire-format.md alone."""
    said = bytes.fromhex("ff524d5148410001") + MASTER_NONCE
    hello = bytes(range(32)) + bytes([0] * 7 + [1]) + b"\x00\x08\x00\x07" + b"broker-aservers"
    assert challenge(MASTER_NONCE) == said
    assert HELLO.encode() == hello
    lengths = [len(part).to_bytes(8, "big") + part for part in (b"slave", said, hello)]
    assert MET.slave_proof("secret") == hmac.digest(b"secret", b"".join(lengths), "sha256")
    assert len(MET.slave_proof("secret")) == PROOF_BYTES


def test_to_a_stock_master_the_greeting_confirms_nothing() -> None:
    """RocketMQ's master reads it as -1: the slave has not begun."""
    assert REPORT.unpack(GREETING) == (-1,)


@pytest.mark.property
@given(st.text(max_size=40), st.integers(0, 1 << 40), st.text(max_size=40), st.binary(min_size=32, max_size=32))
def test_what_is_said_is_what_is_heard(name: str, broker_id: int, key: str, nonce: bytes) -> None:
    """Whatever brokers and users are called."""
    hello = Hello(name, broker_id, key, nonce)
    raw = hello.encode()
    head, rest = raw[:HELLO_HEAD_BYTES], raw[HELLO_HEAD_BYTES:]
    assert Hello.bytes_behind(head) == len(rest)
    assert Hello.decode(head, rest) == hello
    assert challenged_with(challenge(nonce)) == nonce


def test_a_hello_that_is_none_is_refused() -> None:
    """With a clear word, not with a traceback; a long one before it is read."""
    longest = Hello("broker-a", 1, "é" * 1024, bytes(32)).encode()
    assert Hello.bytes_behind(longest[:HELLO_HEAD_BYTES]) == len(longest) - HELLO_HEAD_BYTES
    with pytest.raises(FrameError, match="length"):
        Hello.bytes_behind(bytes(40) + b"\x00\x08\xff\xff")
    with pytest.raises(FrameError, match="UTF-8"):
        Hello.decode(HELLO.encode()[:HELLO_HEAD_BYTES], b"\xff" * 15)
    with pytest.raises(FrameError, match="ha_authentication_enabled"):
        challenged_with(bytes(CHALLENGE.size))


def test_a_proof_is_good_for_one_meeting_one_side_and_one_secret() -> None:
    """What was heard once proves nothing later, nor of the other side, nor of another broker or user."""
    heard = MET.slave_proof("secret")
    assert MET.is_slave(heard, "secret")
    assert MET.is_master(MET.master_proof("secret"), "secret")
    assert not MET.is_master(heard, "secret")
    assert not MET.is_slave(heard, "Secret")
    assert not MET.is_slave(heard[:-1], "secret")
    others = [HELLO._replace(**{field: value}) for field, value in OTHERS.items()]
    for met in (MET._replace(master_nonce=bytes(32)), *(Acquaintance(MASTER_NONCE, other) for other in others)):
        assert not met.is_slave(heard, "secret")


OTHERS = {"broker_name": "broker-b", "broker_id": 2, "access_key": "root", "nonce": bytes(32)}


def test_parts_cannot_be_moved_between_each_other() -> None:
    """A longer name and a shorter key are another proof."""
    assert proof("secret", b"a", b"bc") != proof("secret", b"ab", b"c") != proof("secret", b"a", b"b", b"c")
