"""The store against a model of a few lines, under everything that can happen to it."""

from __future__ import annotations

from errno import EIO
from typing import ClassVar

import pytest
from hypothesis import settings

from .store_machine import FilesAheadMachine, StoreMachine


class FewFilesMachine(StoreMachine):
    """With so few files that queues are synced and closed in the middle of everything."""

    bounds: ClassVar = {"max_open_files": 1, "max_unsynced_files": 1}


TestStoreModel = pytest.mark.property(StoreMachine.TestCase)
TestStoreModel.settings = settings(stateful_step_count=20)
TestFewFiles = pytest.mark.property(FewFilesMachine.TestCase)
TestFewFiles.settings = settings(stateful_step_count=20)
TestFilesAhead = pytest.mark.property(FilesAheadMachine.TestCase)
TestFilesAhead.settings = settings(stateful_step_count=20)


@pytest.mark.faults
def test_no_key_goes_before_its_message() -> None:
    """A story the model met once in 10,000: the sync of the log's directory was refused and left out the next time. A
    power loss brought the file back then, and its messages had no keys."""
    state = StoreMachine()
    state.start(sizes=(4096, 60), mode="ASYNC_FLUSH", index=(5, 4))
    state.append(sends=[(("orders", 0), 6), (("orders", 0), 57)])
    state.append_bulk(lengths=[6, 6, 6, 6, 99, 150], queue=("orders", 1))
    state.append_table(sends=[(("BBBB", 0), 588), *[(("orders", 0), 6)] * 3, (("AaAa", 0), 6)])
    state.reopen()
    state.readers_see_what_was_stored()
    state.fail_in(after_bytes=0, at=18, error=EIO, sends=[(("orders", 0), 6)], what="expire")
    assert str(state.bench.disk.failed) == "Operation(name='sync_directory', path='commitlog')"
    state.crash(deaths=[], has_lost_power=True, seed=None)
    state.keys_lead_to_their_messages()


def test_messages_may_wait_for_the_disk_as_long_as_the_model_likes() -> None:
    """In it nobody flushes by the clock. A story it met once in 300: the store refused what came after two long waits,
    as it does where a flush hangs."""
    state = StoreMachine()
    state.start(sizes=(4096, 60), mode="SYNC_FLUSH", index=(5, 4))
    for _ in range(4):
        state.append(sends=[(("orders", 0), 6)])
        state.let_time_go_by(ms=5000)
    state.expire(hours=1)
    state.append(sends=[(("orders", 0), 6)])
