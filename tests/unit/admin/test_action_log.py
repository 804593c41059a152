"""What was changed is on the record before it is done, and stays there."""

from __future__ import annotations

import json
import os
import resource
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from rmqspark.admin import action_log
from rmqspark.admin.action_log import ActionLog
from rmqspark.errors import Conflict, StoreError, StoreLocked
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from pathlib import Path


def test_an_action_is_recorded_before_it_is_done(tmp_path: Path) -> None:
    log = ActionLog(tmp_path / "a.jsonl", ManualClock())
    with log.recording("ann", "delete topic", "orders", "") as effect:
        (begun,) = log.newest(9)
        assert (begun.outcome, begun.who, begun.subject) == ("begun", "ann", "orders")
        effect.story = "3 messages"
    (done,) = log.newest(9)
    assert (done.outcome, done.effect, done.number) == ("done", "3 messages", begun.number)


def test_a_power_loss_takes_no_action_with_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on the disk before it is done, and how it ended before that is told; in a file whose name is there, too."""
    path, on_disk, synced = tmp_path / "a.jsonl", b"", set()
    fsync = os.fsync

    def seen(descriptor: int) -> None:
        nonlocal on_disk
        fsync(descriptor)
        (name,) = (each for each in (path, tmp_path) if os.path.samestat(os.fstat(descriptor), each.stat()))
        synced.add(name)
        on_disk = path.read_bytes() if name == path else on_disk

    monkeypatch.setattr(os, "fsync", seen)
    log = ActionLog(path, ManualClock())
    assert synced == {path, tmp_path}
    with log.recording("ann", "delete topic", "orders", ""):
        assert json.loads(on_disk)["outcome"] == "begun"
    assert [json.loads(line)["outcome"] for line in on_disk.splitlines()] == ["begun", "done"]


def test_one_that_fails_is_recorded_with_the_reason(tmp_path: Path) -> None:
    log = ActionLog(tmp_path / "a.jsonl", ManualClock())
    with pytest.raises(Conflict), log.recording("ann", "create topic", "orders", ""):
        raise Conflict("It exists.")
    with pytest.raises(KeyError), log.recording("ann", "create topic", "orders", ""):
        raise KeyError("secret")
    assert [(each.outcome, each.effect) for each in log.newest(9)] == [("failed", "KeyError"), ("failed", "It exists.")]


def test_one_that_fails_says_what_was_done_before(tmp_path: Path) -> None:
    log = ActionLog(tmp_path / "a.jsonl", ManualClock())
    with suppress(Conflict), log.recording("ann", "resend dead letters", "billing", "9 letters") as effect:
        effect.story = "4 sent"
        raise Conflict("It consumes in order.")
    assert log.newest(1)[0].effect == "4 sent, then: It consumes in order."


def test_what_is_done_is_no_error_where_its_end_cannot_be_recorded(tmp_path: Path) -> None:
    """Whoever was told so would do it again, and send a message twice. What goes wrong with it is told, too."""
    path = tmp_path / "sub" / "a.jsonl"
    log = ActionLog(path, ManualClock())

    def full() -> None:
        shutil.rmtree(path.parent)

    with log.recording("ann", "send", "orders", ""):
        full()
    path.parent.mkdir()
    with suppress(Conflict), log.recording("ann", "create topic", "orders", ""):
        full()
        raise Conflict("It exists.")
    assert [(each.outcome, each.name) for each in log.newest(9)] == [("failed", "create topic"), ("done", "send")]


def test_one_that_was_cut_off_is_there_after_a_restart(tmp_path: Path) -> None:
    """As begun; so is everything before it, and a line that is half written is left out."""
    path = tmp_path / "a.jsonl"
    first = ActionLog(path, ManualClock())
    with first.recording("ann", "one", "x", ""):
        pass
    cut_off = first.recording("ann", "two", "y", "")
    cut_off.__enter__()
    with path.open("a") as file:
        file.write('{"number": 3, "at_ms"\n[1]\n{"number": "x"}\n')
    first.close()
    again = ActionLog(path, ManualClock())
    assert [(each.name, each.outcome) for each in again.newest(9)] == [("two", "begun"), ("one", "done")]
    with again.recording("ann", "three", "z", ""):
        pass
    assert [each.number for each in again.newest(9)] == [3, 2, 1]
    assert [each.number for each in again.newest(1, before=3)] == [2]


def test_a_line_that_was_cut_off_takes_no_other_along(tmp_path: Path) -> None:
    """What is begun next is on the record, also if that is cut off in turn."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"number": 1, "at_ms"')
    first = ActionLog(path, ManualClock())
    cut_off = first.recording("ann", "two", "y", "")
    cut_off.__enter__()
    first.close()
    assert [each.name for each in ActionLog(path, ManualClock()).newest(9)] == ["two"]


def test_what_the_disk_takes_a_part_of_is_not_recorded(tmp_path: Path) -> None:
    """So it is not done; once there is room again, all is as it was."""
    path = tmp_path / "a.jsonl"
    log = ActionLog(path, ManualClock())
    with log.recording("ann", "one", "x", ""):
        pass
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, limits[1]))
    try:
        with pytest.raises(StoreError, match="cannot be recorded"):
            log.recording("ann", "two", "y", "").__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with log.recording("ann", "three", "z", ""):
        pass
    log.close()
    told = [(each.name, each.outcome) for each in ActionLog(path, ManualClock()).newest(9)]
    assert told == [("three", "done"), ("one", "done")]


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of the limit at most; what they hold is listed after a restart."""
    monkeypatch.setattr(action_log, "MOST_BYTES", 2_000)
    path = tmp_path / "a.jsonl"
    log = ActionLog(path, ManualClock())
    for number in range(50):
        with log.recording("ann", f"n{number}", "x" * 20, ""):
            pass
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 4_000
    log.close()
    assert log.newest(1)[0].name == ActionLog(path, ManualClock()).newest(1)[0].name == "n49"


def test_words_of_others_are_not_kept_at_any_length(tmp_path: Path) -> None:
    """A name that is refused may have a million letters, and ten thousand of these are kept in memory."""
    path = tmp_path / "a.jsonl"
    log = ActionLog(path, ManualClock())
    with suppress(Conflict), log.recording("ann", "create topic", "x" * 1_000_000, "y" * 1_000_000):
        raise Conflict("z" * 1_000_000)
    (action,) = log.newest(9)
    assert [each[-2:] for each in (action.subject, action.detail, action.effect)] == ["x…", "y…", "z…"]
    assert path.stat().st_size < 20_000


def test_half_a_character_is_kept_as_its_code(tmp_path: Path) -> None:
    """No JSON can have it in an answer: the list of all changes would be an error from then on, after a restart too."""
    path = tmp_path / "a.jsonl"
    log = ActionLog(path, ManualClock())
    with suppress(Conflict), log.recording("ann", "create topic", "a\ud800", "b\udfff"):
        raise Conflict("c\ud800")
    path.write_text(path.read_text().replace("\\\\ud800", "\\ud800"))  # as it was written once
    log.close()
    for each in (log, ActionLog(path, ManualClock())):
        (action,) = each.newest(9)
        assert (action.subject, action.detail, action.effect) == ("a\\ud800", "b\\udfff", "c\\ud800")


def test_words_of_others_stay_one_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with ActionLog(path, ManualClock()).recording("ann", "send", "a\nb\u2028\x1b[31m", '"'):
        pass
    begun, done = path.read_bytes().splitlines()
    assert json.loads(begun)["subject"] == json.loads(done)["subject"] == "a\nb\u2028\x1b[31m"
    assert path.read_bytes().isascii()
    assert b"\x1b" not in path.read_bytes()


def test_nothing_is_changed_that_cannot_be_recorded(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be recorded"):
        ActionLog(tmp_path / "file" / "a.jsonl", ManualClock())
    log = ActionLog(tmp_path / "sub" / "a.jsonl", ManualClock())
    shutil.rmtree(tmp_path / "sub")
    with pytest.raises(StoreError, match="cannot be recorded"), log.recording("ann", "x", "y", ""):
        pytest.fail("it was done all the same")


def test_two_do_not_record_in_one_file(tmp_path: Path) -> None:
    """Two consoles started in one directory would give their changes the same numbers: of two one was listed then."""
    first = ActionLog(tmp_path / "a.jsonl", ManualClock())
    with pytest.raises(StoreLocked, match="Another rmq admin records in .*a.jsonl.*--action-log"):
        ActionLog(tmp_path / "a.jsonl", ManualClock())
    first.close()
    ActionLog(tmp_path / "a.jsonl", ManualClock()).close()
