"""Tables on disk: a good copy at every moment, and a loud word where there is none."""

from __future__ import annotations

import errno
import json
from contextlib import suppress
from typing import Any

import pytest

from rmqspark.entropy import SystemEntropy
from rmqspark.errors import DamagedFile
from rmqspark.store.identity import StoreIdentity
from rmqspark.store.json_table import JsonTable
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.memory_files import MemoryFileSystem

PATH = "config/topics.json"
pytestmark = pytest.mark.faults


def table_with(files: MemoryFileSystem, *versions: int) -> JsonTable:
    table = JsonTable(files, PATH)
    table.load(json.loads)
    for version in versions:
        table.save(json.dumps({"v": version, "padding": "x" * 2000}))
    return table


def loaded(files: MemoryFileSystem) -> tuple[Any, str]:
    table = JsonTable(files, PATH)
    value = table.load(json.loads)
    return (value and value["v"]), table.warning


def overwrite(files: MemoryFileSystem, path: str, content: bytes) -> None:
    file = files.open(path)
    file.truncate(0)
    file.pwrite(content, 0)


def test_what_was_saved_is_loaded() -> None:
    """Each version replaces the one before, which is kept beside it."""
    files = MemoryFileSystem()
    assert loaded(files) == (None, "")
    table_with(files, 1, 2, 3)
    files.crash()
    assert loaded(files) == (3, "")
    assert files.listdir("config") == ["topics.json", "topics.json.bak"]
    assert json.loads(files.open(f"{PATH}.bak").pread(9999, 0))["v"] == 2


@pytest.mark.parametrize("content", [b"", b'{"v": 3', b"\xff\xfe", bytes(2000)])
def test_a_bad_file_gives_way_to_its_copy(content: bytes) -> None:
    """The version before is used, and said to be."""
    files = MemoryFileSystem()
    table_with(files, 1, 2)
    overwrite(files, PATH, content)
    value, warning = loaded(files)
    assert value == 1
    assert "config/topics.json cannot be read" in warning
    assert "config/topics.json.bak" in warning


def test_a_bad_file_does_not_replace_the_good_copy() -> None:
    """Saving after a fall-back keeps the copy that was good until the new version is there."""
    files = MemoryFileSystem()
    table_with(files, 1, 2)
    overwrite(files, PATH, b"bad")
    table_with(files, 3)
    assert loaded(files) == (3, "")
    assert json.loads(files.open(f"{PATH}.bak").pread(9999, 0))["v"] == 1


@pytest.mark.parametrize(("current", "backup"), [(b"bad", b"bad"), (b"bad", None), (None, b"bad")])
def test_two_bad_files_are_an_error_that_says_what_to_do(current: bytes | None, backup: bytes | None) -> None:
    """A broker must not start without the topics it had and say nothing."""
    files = MemoryFileSystem()
    table_with(files, 1, 2)
    for path, content in ((PATH, current), (f"{PATH}.bak", backup)):
        if content is None:
            files.unlink(path)
        else:
            overwrite(files, path, content)
    with pytest.raises(DamagedFile) as caught:
        loaded(files)
    assert "config/topics.json" in caught.value.message
    assert "delete both" in caught.value.hint


@pytest.mark.parametrize("power", ["kill", "crash", "partial"])
def test_death_at_every_operation_leaves_a_good_version(power: str) -> None:
    """RocketMQ #3401, where tables were garbage after a crash: whenever the process dies or the power goes, the version
    saved last is there, or the one being saved."""
    for died_at in range(1, 100):
        for seed in range(20):
            files = MemoryFileSystem()
            table = table_with(files, 1, 2)
            files.stop_at(died_at, after_bytes=seed * 100)
            try:
                table.save(json.dumps({"v": 3}))
            except ProcessDied:
                pass
            else:
                assert died_at > 6
                return
            _end(files, power, seed)
            before = loaded(files)[0]
            assert before in (2, 3)
            files.stop_at(1 + seed % 7, after_bytes=5)
            with suppress(ProcessDied):
                table_with(files, 4)
            _end(files, power, seed + 1)
            assert loaded(files)[0] in (before, 4)


def _end(files: MemoryFileSystem, power: str, seed: int) -> None:
    match power:
        case "kill":
            files.kill()
        case "crash":
            files.crash()
        case _:
            files.crash(SystemEntropy(seed))


def test_a_failed_save_can_be_repeated() -> None:
    """Whichever operation the disk refuses, the version before is there, and the next save goes through."""
    for failing in range(1, 100):
        files = MemoryFileSystem()
        table = table_with(files, 1, 2)
        files.fail_at(failing, OSError(errno.EIO, "refused"))
        try:
            table.save(json.dumps({"v": 3}))
        except OSError:
            assert loaded(files)[0] in (2, 3)
            table.save(json.dumps({"v": 4}))
            assert loaded(files) == (4, "")
        else:
            assert failing > 6
            return


def test_a_store_is_the_same_after_every_start() -> None:
    """The id is drawn once; the incarnation goes up by one and never back, power loss or not."""
    files = MemoryFileSystem()
    identity = StoreIdentity.open(files, SystemEntropy(7))
    assert (len(bytes.fromhex(identity.store_id)), identity.incarnation) == (16, 1)
    identity.raise_incarnation()
    files.crash()
    again = StoreIdentity.open(files, SystemEntropy(8))
    assert (again.store_id, again.incarnation, again.warning) == (identity.store_id, 2, "")


def test_a_copy_takes_over_whose_store_it_is_once_the_disk_takes_that() -> None:
    """Whichever operation the disk refuses: what is asked for again is done, and there after a crash."""
    for failing in range(1, 100):
        files = MemoryFileSystem()
        identity = StoreIdentity.open(files, SystemEntropy(7))
        files.fail_at(failing, OSError(errno.EIO, "refused"))
        try:
            identity.adopt("5f" * 16, 3)
        except OSError:
            identity.adopt("5f" * 16, 3)
            files.crash()
            again = StoreIdentity.open(files, SystemEntropy(8))
            assert (again.store_id, again.incarnation) == ("5f" * 16, 3)
        else:
            assert failing > 6
            return


@pytest.mark.parametrize(
    "content",
    [b"{}", b'{"storeId":"short","incarnation":1}', b'{"storeId":"%s","incarnation":0}' % (b"a" * 32), b"[]", b""],
)
def test_an_identity_that_makes_no_sense_is_not_guessed(content: bytes) -> None:
    """A store whose identity is lost says so; with a new one, readers would take old offsets for new ones."""
    files = MemoryFileSystem()
    StoreIdentity.open(files, SystemEntropy(7))
    overwrite(files, "rmqspark.json", content)
    with pytest.raises(DamagedFile, match=r"rmqspark\.json"):
        StoreIdentity.open(files, SystemEntropy(7))
