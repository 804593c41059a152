"""A frame of `rmq top`."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from rmqspark.cli.top.keys import Keys
from rmqspark.cli.top.verb import _sort_of
from rmqspark.cli.top.view import Sort, document, frame_text, readers_sorted, topics_sorted
from rmqspark.client.administration.replicas import SlaveStatus
from rmqspark.client.watching.rates import BrokerRates, OpenTransaction, Rates, ReaderRates, TopicRates

READERS = (
    ReaderRates("slow", "", 10, 1.0, None, False),
    ReaderRates("far", "", 1_000, 50.0, 90, True),
    ReaderRates("near", "", 500, 400.0, 300, True),
    ReaderRates("done", "", 0, 0.0, 0, True),
    ReaderRates("new", "", None, None, None, None),
    ReaderRates("billing", "running", 60, 50.0, 2, True, 3_000, "id"),
)
TOPICS = tuple(TopicRates(f"topic-{number:03}", float(number % 7), number) for number in range(100))
BROKERS = (
    BrokerRates("broker-a", "c", "h:1", 1_234.56, 0.0, 0.5, 3 << 30, "", 0),
    BrokerRates("broker-b", "c", "h:2", None, None, 0.25, None, "Connection refused.", 14_000),
    BrokerRates("broker-c", "c", "h:3", None, None, None, None, "Connection refused.", None),
)
OPEN = (OpenTransaction("T", 1_003, "version 1003 is being written", 61_000, 1_000),)
FRAME = Rates(1_700_000_000_000, 1_234.56, None, 7, BROKERS, TOPICS, READERS, OPEN, ("broker-b: refused",))


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        (Sort.LAG, "far near billing slow done new"),
        (Sort.RATE, "near billing far slow done new"),
        (Sort.DRAIN, "slow near far billing done new"),
        (Sort.NAME, "billing done far near new slow"),
    ],
)
def test_what_comes_first(sort: Sort, names: str) -> None:
    """The worst; what is unknown is at the end, and never at the top as if it were the worst."""
    assert [each.name for each in readers_sorted(READERS, sort)] == names.split()
    assert [each["name"] for each in document(FRAME, sort)["readers"]] == names.split()


def test_topics_come_by_rate_or_by_name() -> None:
    assert topics_sorted(TOPICS, Sort.LAG)[0].name == "topic-097"
    assert topics_sorted(TOPICS, Sort.NAME)[0].name == "topic-000"


@pytest.mark.parametrize(
    ("pressed", "expected"), [("", Sort.LAG), ("x", Sort.LAG), ("n", Sort.NAME), ("nd", Sort.DRAIN), ("rx", Sort.RATE)]
)
def test_keys(pressed: str, expected: Sort) -> None:
    """The last one that means something."""
    assert _sort_of(pressed, Sort.LAG) is expected


@pytest.mark.parametrize(
    ("sent", "pressed"),
    [
        (b"D", "d"), (b"\x1b[D", ""), (b"\x1bOQ", ""), (b"\x1b[15~n", "n"), (b"\x1b", ""), ("ö".encode(), ""),
        (b"", "q"),
    ],
)  # fmt: skip
def test_only_letters_are_keys(sent: bytes, pressed: str) -> None:
    """F2 does not quit, an arrow does not sort, though terminals spell them with letters; nor does an umlaut."""
    reading, writing = os.pipe()
    os.write(writing, sent)
    os.close(writing)
    with os.fdopen(reading):
        assert Keys(reading).pressed() == pressed


def test_all_of_it_is_there() -> None:
    """Unknown is said; a broker that is away has the age of its figures, if it ever had any."""
    lines = frame_text(FRAME, Sort.LAG).splitlines()
    assert lines[:2] == [
        "2023-11-14 22:13:20Z  in 1,234.6/s  out unknown/s  lag 1,570",
        "half messages 7  open transactions 1  sorted by lag",
    ]
    assert "! broker-b: refused" in lines
    cells = {line.split()[0]: " ".join(line.split()[1:]) for line in lines if line}
    assert cells["broker-a"] == "c 1,234.6 0.0 50%, 3.0 GiB free ok"
    assert cells["broker-b"] == "c unknown unknown 25% does not answer; figures of 14 s ago"
    assert cells["broker-c"] == "c unknown unknown unknown does not answer"
    assert cells["far"] == "group 1,000 50.0 - 90 s"
    assert cells["slow"] == "group 10 1.0 - does not catch up"
    assert cells["done"] == "group 0 0.0 - -"
    assert cells["new"] == "group unknown unknown - unknown"
    assert cells["billing"] == "query, running 60 50.0 3 s 2 s"
    assert cells["T"] == "1003 version 1003 is being written 61 s 1,000"
    assert sum(line.startswith("topic-") for line in lines) == 100


@pytest.mark.parametrize("height", [24, 30, 50, 120])
def test_a_frame_fits_its_terminal(height: int) -> None:
    """Long tables give way, and say how many rows are left out; short ones stay whole."""
    lines = frame_text(FRAME, Sort.LAG, height, "keys").splitlines()
    assert len(lines) <= max(height, 30)
    left_out = [int(line.split()[2]) for line in lines if line.startswith("... and")]
    shown = sum(line.startswith("topic-") for line in lines)
    assert shown + left_out[0] == 100 if left_out else shown == 100
    assert any(line.startswith("T ") for line in lines)


def test_slaves_have_a_table_of_their_own() -> None:
    """Where there are any."""
    slave = SlaveStatus("broker-a", 1, "h:9", is_connected=True, behind_bytes=3 << 20, is_in_sync=True)
    shown = replace(FRAME, brokers=(replace(BROKERS[0], slaves=(slave,)),))
    row = next(line for line in frame_text(shown, Sort.LAG).splitlines() if "h:9" in line)
    assert row.split() == ["broker-a", "1", "h:9", "SLAVE", "3.0", "MiB", "yes", "ok"]
    assert "slave of" not in frame_text(FRAME, Sort.LAG)
    (broker,) = document(shown, Sort.LAG)["brokers"]
    assert broker["slaves"] == [
        {"brokerId": 1, "address": "h:9", "role": "SLAVE", "connected": True, "behindBytes": 3 << 20, "inSync": True}
        | {"state": "ok"}
    ]
