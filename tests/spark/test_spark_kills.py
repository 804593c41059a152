"""Real processes, killed: every row of a topic is in the other one once, in its order, whatever dies and whenever."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.fault_points import NAMES
from rmqspark.testing import assert_exactly_once

from .kills.campaign import BROKERS, MESSAGES_A_BATCH, Campaign, T
from .kills.traffic import assert_copied, copied, send
from .kills.victims import Brokers, CopyDriver, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.slow_first]

VICTIMS = ("driver", "worker", "coordinator", "participant")
KILLS_OF_A_SOAK = 100


@pytest.mark.timeout(3600)
def test_kills_lose_and_double_nothing(
    tmp_path: Path, amount: Callable[..., int], seed: int, tell: Callable[[str], None]
) -> None:
    """Driver, Python worker, broker, coordinator: killed inside each step of the protocol and at random moments."""
    with Brokers(tmp_path) as brokers:
        campaign = Campaign(tmp_path, brokers, seed)
        try:
            campaign.kill_in_every_step()
            campaign.kill_each_at_random(VICTIMS)
            while campaign.kills < amount(0, KILLS_OF_A_SOAK, by=0.5):
                campaign.kill_at_random(VICTIMS)
            campaign.finish()
        finally:
            campaign.driver.kill()
            tell(f"--randomly-seed={seed}: {campaign}")
        assert_copied(brokers.namesrv)
        assert_exactly_once(T, namesrv=brokers.namesrv)
    assert {step for step in NAMES if not campaign.hits[step]} == set()


@pytest.mark.timeout(3600)
def test_a_zombie_is_fenced(tmp_path: Path) -> None:
    """A driver that was frozen in the middle of a commit, and comes back while another runs, adds nothing and ends."""
    with Brokers(tmp_path) as brokers:
        for name in BROKERS:
            brokers.start(name)
        with AdminClient(brokers.namesrv) as admin:
            admin.create_topic("source", queues=2)
            admin.create_topic("target", queues=2)
        send(brokers.namesrv, range(3_000))
        copy = CopyDriver(tmp_path, brokers.namesrv, T, MESSAGES_A_BATCH)
        zombie = successor = copy.start("before_decide:stop")
        try:
            wait_for(lambda: bool(zombie.stopped()), "the first driver commits", zombie)
            zombie.signal(signal.SIGSTOP)
            frozen_in, _ = copy.batches
            successor = CopyDriver(tmp_path, brokers.namesrv, T, MESSAGES_A_BATCH, log="successor.log").start()
            wait_for(lambda: copy.batches[1] > frozen_in + 1, "the second goes on", successor)
            zombie.signal(signal.SIGCONT)
            wait_for(lambda: not zombie.alive, "the first driver ends", zombie)
            assert "another run has taken over" in zombie.output
            wait_for(lambda: copied(copy) == 3_000 and not copy.is_in_a_batch, "all is copied", successor)
        finally:
            zombie.kill()
            successor.kill()
        assert_copied(brokers.namesrv)
        assert_exactly_once(T, namesrv=brokers.namesrv)
