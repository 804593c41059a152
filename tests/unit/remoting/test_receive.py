"""The receiving half of a server's connection, without a socket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import Busy, FrameError
from rmqspark.remoting.receive import Budget, FrameReceiver, command_at

SHARED_BYTES = 64  # small, so that small frames do what large ones do
MAX_FRAME_BYTES = 100_000


def make_receiver(budget: Budget | None = None) -> FrameReceiver:
    return FrameReceiver(memoryview(bytearray(SHARED_BYTES)), budget or Budget(1 << 20), MAX_FRAME_BYTES)


def framed(body: bytes) -> bytes:
    """A command with nothing but a body: length, header word, body."""
    return (4 + len(body)).to_bytes(4, "big") + bytes(4) + body


def receive(receiver: FrameReceiver, stream: bytes, sizes: list[int]) -> list[bytes]:
    """Feeds the stream as a socket would that has at most `sizes` bytes ready at a time; returns the bodies."""
    bodies = []
    at = turn = 0
    while at < len(stream):
        room = receiver.writable()
        count = min(len(room), max(1, sizes[turn % len(sizes)]), len(stream) - at)
        room[:count] = stream[at : at + count]
        receiver.received(count)
        bodies += [bytes(command_at(receiver.view, *places).body) for places in receiver.frames()]
        receiver.settle()
        at, turn = at + count, turn + 1
    return bodies


contents = st.lists(st.binary(max_size=300), min_size=1, max_size=12)


@pytest.mark.property
@given(contents, st.lists(st.integers(1, 200), min_size=1, max_size=8))
def test_any_split(wanted: list[bytes], sizes: list[int]) -> None:
    """However the bytes of commands are cut up on their way, the same commands arrive."""
    receiver = make_receiver()
    assert receive(receiver, b"".join(map(framed, wanted)), sizes) == wanted
    assert not receiver.partial


def test_every_split_of_two_frames() -> None:
    """Two commands arrive whole wherever the network divides them."""
    wanted = [b"first command", b"x" * 150]
    stream = b"".join(map(framed, wanted))
    for cut in range(1, len(stream)):
        receiver = make_receiver()
        assert receive(receiver, stream[:cut], [SHARED_BYTES]) + receive(receiver, stream[cut:], [200]) == wanted


@pytest.mark.property
@given(contents, st.integers(1, 5))
def test_stopping_between_frames(wanted: list[bytes], at_a_time: int) -> None:
    """A client that does not read its answers has its next commands wait, none is lost or handled twice."""
    receiver = make_receiver()
    stream = b"".join(map(framed, wanted))
    bodies: list[bytes] = []
    at = 0
    while at < len(stream):
        room = receiver.writable()
        count = min(len(room), len(stream) - at)
        room[:count] = stream[at : at + count]
        receiver.received(count)
        at += count
        for _ in range(200):  # handles a few, stops, comes back
            taken = 0
            for places in receiver.frames():
                bodies.append(bytes(command_at(receiver.view, *places).body))
                taken += 1
                if taken == at_a_time:
                    break
            receiver.settle()
            if taken < at_a_time:
                break
    assert bodies == wanted


@pytest.mark.parametrize("length", [-1, 0, 3, MAX_FRAME_BYTES - 3, 2**31 - 1])
def test_impossible_lengths(length: int) -> None:
    """A length that no command can have ends the connection before any memory is spent on it."""
    receiver = make_receiver()
    stream = length.to_bytes(4, "big", signed=True)
    with pytest.raises(FrameError):
        receive(receiver, stream, [4])


def test_memory_follows_bytes_not_promises() -> None:
    """A client that announces a long command and sends little of it costs little memory."""
    budget = Budget(1 << 20)
    receiver = make_receiver(budget)
    receive(receiver, (MAX_FRAME_BYTES - 4).to_bytes(4, "big") + b"x" * 200, [SHARED_BYTES])
    budget.take((1 << 20) - 2 * 4096)  # all but two smallest buffers is still there


def test_budget() -> None:
    """When all clients together hold too much, the one that wants more is the one that is refused."""
    receiver = make_receiver(Budget(10_000))
    with pytest.raises(Busy):
        receive(receiver, (50_000).to_bytes(4, "big") + b"x" * 50_000, [SHARED_BYTES])


def test_large_frames_reuse_their_buffer_until_idle() -> None:
    """A connection of large commands keeps one buffer; an idle one keeps none."""
    budget = Budget(1 << 20)
    receiver = make_receiver(budget)
    large = framed(b"y" * 5_000)
    assert len(receive(receiver, large * 4, [1_000])) == 4
    budget.take((1 << 20) - len(large))  # one buffer is held, of just the frame's size
    budget.give_back((1 << 20) - len(large))
    receiver.shrink()  # was used since the last time
    receiver.shrink()
    budget.take(1 << 20)


def test_shrinking_spares_a_frame_under_way() -> None:
    """Giving memory back never costs a command that is half received."""
    receiver = make_receiver()
    stream = framed(b"z" * 1_000)
    assert receive(receiver, stream[:500], [SHARED_BYTES]) == []
    receiver.shrink()
    receiver.shrink()
    assert receive(receiver, stream[500:], [SHARED_BYTES]) == [b"z" * 1_000]


def test_changing_budgets() -> None:
    """Memory held moves with the connection from the newcomers' account to that of the others."""
    newcomers, others = Budget(10_000), Budget(10_000)
    receiver = make_receiver(newcomers)
    receive(receiver, framed(b"z" * 8_000)[:6_000], [SHARED_BYTES])
    receiver.use_budget(others)
    newcomers.take(10_000)
    with pytest.raises(Busy):
        others.take(10_000)
    receiver.release()
    others.take(10_000)


def test_memory_that_is_not_there_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a short want of memory would take some of the budget for good, until nobody could send a large frame."""
    budget = Budget(1 << 20)
    receiver = make_receiver(budget)
    receive(receiver, framed(bytes(9_000))[:6_000], [64])

    def no_memory(_: int) -> bytearray:
        raise MemoryError

    monkeypatch.setattr("rmqspark.remoting.receive.bytearray", no_memory, raising=False)
    with pytest.raises(MemoryError):
        receive(receiver, framed(bytes(9_000))[6_000:], [4_000])
    receiver.release()
    budget.take(1 << 20)
