"""What slaves confirm, and what counts of it."""

from __future__ import annotations

from itertools import count

import pytest

from rmqspark.errors import FrameError
from rmqspark.replication.acks import NOTHING, SlaveProgress, Slaves

_numbers = count()


def slave(sent: int, acked: int = NOTHING, of: str = "", alike: int = 1) -> SlaveProgress:
    progress = SlaveProgress("10.0.0.1:1", of or f"slave {next(_numbers)}", alike=alike)
    progress.begin(0)
    progress.sent(sent)
    if acked != NOTHING:
        progress.ack(acked)
    return progress


def test_more_than_was_sent_is_no_confirmation() -> None:
    """Whoever confirms what it never got is not believed, then or later (a forged ack of 2^62)."""
    forger = slave(100, 50)
    with pytest.raises(FrameError, match=str(1 << 62)):
        forger.ack(1 << 62)
    assert forger.acked_offset == 50


def test_confirmations_do_not_go_back() -> None:
    """A late report takes nothing back."""
    one = slave(100, 70)
    one.ack(30)
    assert one.acked_offset == 70


def test_what_is_confirmed_by_so_many() -> None:
    """A message that waits for two slaves is safe when the second has it."""
    slaves = Slaves()
    for each in (slave(100, 70), slave(100, 90), slave(100)):
        slaves.add(each)
    assert [slaves.confirmed_by(count) for count in (1, 2, 3, 4)] == [90, 70, NOTHING, NOTHING]
    assert len(slaves) == 3


def test_slaves_that_fell_behind_are_not_waited_for() -> None:
    """Nor are those that have not confirmed anything yet."""
    slaves = Slaves()
    for each in (slave(1000, 900), slave(1000, 500), slave(1000)):
        slaves.add(each)
    assert slaves.in_step(1000, 500) == 1
    assert slaves.in_step(1000, 501) == 2
    for each in list(slaves):
        slaves.remove(each)
    assert slaves.in_step(1000, 256) == 0


def test_a_slave_with_two_connections_is_one_slave() -> None:
    """A connection that broke unnoticed and the one after it are one copy, and the newer one says how far it is."""
    slaves = Slaves()
    for each in (slave(100, 90, "a"), slave(100, 70, "a"), slave(100, 80, "b")):
        slaves.add(each)
    assert [slaves.confirmed_by(number) for number in (1, 2, 3)] == [80, 70, NOTHING]
    assert slaves.in_step(100, 256) == 2
    slaves.add(slave(100, NOTHING, "b"))  # comes again, and has said nothing yet
    assert slaves.confirmed_by(1) == 80


def test_several_slaves_of_one_host_are_as_many_as_are_known_there() -> None:
    """Where slaves say nothing of who they are, a host with two slaves has two, however often they connect."""
    slaves = Slaves()
    for acked, alike in ((10, 1), (20, 2), (30, 2)):
        slaves.add(slave(100, acked, "10.0.0.1", alike))
    assert [slaves.confirmed_by(number) for number in (1, 2, 3)] == [30, 20, NOTHING]
