"""What `rmq demo` deletes before it begins is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.cli.demo.verb import make_anew
from rmqspark.cli.up.own_queue import UP_LOG
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path


def test_a_directory_that_is_called_like_the_demos_stays(tmp_path: Path) -> None:
    """`rmq demo -o .` where there is a `work`: whoever has files there would miss them."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "thesis.tex").write_text("years")
    with pytest.raises(InvalidArgument, match="left alone.*another place with -o"):
        make_anew(work)
    assert (work / "thesis.tex").read_text() == "years"


def test_a_file_in_its_place_stays(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("mine")
    with pytest.raises(InvalidArgument, match="left alone"):
        make_anew(tmp_path / "work")


def test_what_a_demo_has_left_gives_way_to_the_next(tmp_path: Path) -> None:
    """One that was killed, or kept its files; and one that was killed before there were any."""
    work = tmp_path / "new" / "work"
    make_anew(work)
    make_anew(work)
    (work / "store").mkdir()
    (work / "store" / UP_LOG).touch()
    make_anew(work)
    assert list(work.iterdir()) == []
