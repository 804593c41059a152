"""Where a push consumer that reads all queues alone keeps its offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqspark.client.pushing.offsets import LocalOffsets, local_offsets_path
from rmqspark.errors import InvalidArgument, StoreError
from rmqspark.message_queue import MessageQueue


def test_they_are_where_rocketmqs_clients_keep_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A consumer that is written anew in Python goes on where the Java one was."""
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / ".rocketmq_offsets" / "10.0.0.1@DEFAULT" / "billing" / "offsets.json"
    assert local_offsets_path(None, "10.0.0.1@DEFAULT", "billing") == expected
    assert local_offsets_path("/data", "c", "g") == Path("/data/c/g/offsets.json")


def test_who_has_no_home_is_told_which_setting_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the user may be a number that no file knows."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 3_999_999_999)
    with pytest.raises(InvalidArgument, match="no home directory") as refused:
        local_offsets_path(None, "c", "g")
    assert "local_offset_store_dir" in refused.value.hint


def test_who_can_neither_read_nor_write_them_is_told_too(tmp_path: Path) -> None:
    """A directory stands where the file should be; and a file where its directory should."""
    with pytest.raises(StoreError, match="cannot be read: Is a directory") as refused:
        LocalOffsets(tmp_path)
    assert "local_offset_store_dir" in refused.value.hint
    directory = tmp_path / "me" / "g"
    offsets = LocalOffsets(directory / "offsets.json")
    offsets.commit(MessageQueue("orders", "broker-a", 0), 5)
    directory.parent.write_bytes(b"")
    with pytest.raises(StoreError, match="cannot be saved: Not a directory") as refused:
        offsets.flush()
    assert "local_offset_store_dir" in refused.value.hint
