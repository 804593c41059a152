"""Masters and slaves killed under load, again and again: what a SYNC_MASTER acknowledged is on its slave."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from rmqspark.testing.history import History
from rmqspark.testing.history_checker import Checker

from .load import QUEUES, TOPIC
from .replicas import PROBES, Replicas, Senders, bring_back_master, check_the_end
from .servers import BROKER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.faults]
MASTER_KILLS, SLAVE_KILLS, KILLS_OF_A_SOAK = 4, 3, 100
_MOST_BETWEEN_KILLS = 1500  # acknowledged messages
_PATIENCE_S = 60


@pytest.mark.timeout(1800)
def test_what_a_sync_master_acknowledged_is_on_its_slave(
    tmp_path: Path, amount: Callable[..., int], seed: int, tell: Callable[[str], None]
) -> None:
    """The master is killed under load; whatever it had acknowledged is read from the slave, in its place."""
    kills, rng, checker = amount(MASTER_KILLS, KILLS_OF_A_SOAK), Random(seed), Checker()
    history = History(checker.feed)
    history.opened(BROKER, 1)
    with Replicas(tmp_path, "SYNC_MASTER") as replicas:
        replicas.create_topic(TOPIC, len(QUEUES))
        replicas.create_topic(PROBES, 1)
        for kill in range(kills):
            replicas.wait_until_in_step()
            load = Senders(history, replicas, f"{kill}", rng.getrandbits(32))
            goal = history.acknowledged + rng.randint(100, _MOST_BETWEEN_KILLS)
            with load:
                assert history.wait_for(lambda goal=goal: history.acknowledged >= goal, _PATIENCE_S), load.failure
                replicas.master.kill()
            bring_back_master(replicas, load, history, checker, f"slave-{kill}")
        end = check_the_end(replicas, history, checker)
    tell(f"--randomly-seed={seed}: {kills} masters killed, {history.acknowledged} messages acknowledged, {end} bytes")
    assert history.acknowledged > 100 * kills


@pytest.mark.timeout(1800)
def test_a_slave_that_is_killed_comes_back_to_the_same_log(
    tmp_path: Path, amount: Callable[..., int], seed: int, tell: Callable[[str], None]
) -> None:
    """A slave is killed while the log grows and rolls over; in the end it has what its master has, byte for byte."""
    kills, rng, history = amount(SLAVE_KILLS, KILLS_OF_A_SOAK), Random(seed), History()
    with Replicas(tmp_path, "ASYNC_MASTER") as replicas:
        replicas.create_topic(TOPIC, len(QUEUES))
        load = Senders(history, replicas, "load", rng.getrandbits(32))
        with load:
            for _ in range(kills):
                goal = history.acknowledged + rng.randint(100, 3 * _MOST_BETWEEN_KILLS)
                assert history.wait_for(lambda goal=goal: history.acknowledged >= goal, _PATIENCE_S), load.failure
                replicas.slave.kill()
                replicas.slave.start()
        end = replicas.wait_until_copied()
        assert replicas.slave.log_up_to(end) == replicas.master.log_up_to(end)
    tell(f"--randomly-seed={seed}: {kills} slaves killed, {history.acknowledged} messages acknowledged, {end} bytes")
