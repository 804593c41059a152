"""One `rmq up` per directory, and endpoints.json only while it answers."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from rmqspark.cli.up.endpoints import ENDPOINTS, announced, claimed
from rmqspark.errors import InvalidArgument, StoreError, StoreLocked

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_killed_one_left_misleads_nobody(tmp_path: Path) -> None:
    """An endpoints.json from before is gone as soon as the directory is taken, long before the new one is there."""
    (tmp_path / ENDPOINTS).write_text("{}")
    with claimed(tmp_path):
        assert os.listdir(tmp_path) == []


def test_a_directory_is_taken_once(tmp_path: Path) -> None:
    """A second one is refused and touches nothing; after the first has gone the directory is free."""
    with claimed(tmp_path / "new" / "store"):
        (tmp_path / "new" / "store" / ENDPOINTS).write_text("{}")
        with pytest.raises(StoreLocked, match="Another rmq up"), claimed(tmp_path / "new" / "store"):
            pass
        assert (tmp_path / "new" / "store" / ENDPOINTS).exists()
    with claimed(tmp_path / "new" / "store"):
        pass


def test_a_file_is_no_place_for_a_store(tmp_path: Path) -> None:
    """The option is named, and what is wrong with its value."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="--store .*file is not a directory"), claimed(tmp_path / "file"):
        pass


def test_a_place_where_nothing_can_be_made(tmp_path: Path) -> None:
    """The system's reason comes with the option that names another place."""
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "store"
    with pytest.raises(StoreError, match="Nothing can be written in .*store: Not a directory.*--store"), claimed(below):
        pass


def test_a_link_in_its_place_leads_nowhere(tmp_path: Path) -> None:
    """Who may write into the directory has nothing else overwritten; and the file is its owner's alone."""
    (tmp_path / "elsewhere").write_text("untouched")
    for name in (ENDPOINTS, "endpoints.tmp"):
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    before = os.umask(0)
    try:
        with announced(tmp_path / ENDPOINTS, {}):
            assert (tmp_path / "elsewhere").read_text() == "untouched"
            assert not (tmp_path / ENDPOINTS).is_symlink()
            assert (tmp_path / ENDPOINTS).stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_what_is_refused_names_the_directory_alone(tmp_path: Path) -> None:
    """A file of ours that cannot be taken away, or written, is told of by the place people chose, with what to do."""
    (tmp_path / ENDPOINTS / "in the way").mkdir(parents=True)
    story = rf"Nothing can be written in {tmp_path}: Is a directory. .*--store DIR"
    with pytest.raises(StoreError, match=story), claimed(tmp_path):
        pass
    with pytest.raises(StoreError, match=story), announced(tmp_path / ENDPOINTS, {}):
        pass


def test_endpoints_are_announced_whole_and_taken_back(tmp_path: Path) -> None:
    """Whoever waits for the file finds all of it; when the servers end it goes."""
    path = tmp_path / ENDPOINTS
    with announced(path, {"admin": None}):
        assert json.loads(path.read_text()) == {"admin": None}
        assert os.listdir(tmp_path) == [ENDPOINTS]
    assert os.listdir(tmp_path) == []
