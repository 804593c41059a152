"""`rmq txn` and `rmq audit` on transactions of a real cluster."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.cli.audit import _output, _show
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.proofs import Proof
from rmqspark.client.spark.queries import report_query
from rmqspark.client.spark.txn import input_keeper, report_input
from rmqspark.protocol.bodies.queries import QueryQueue, QueryReport
from rmqspark.protocol.bodies.txn import AuditedBatch, InputRange, OutputRange
from rmqspark.sink.transaction_options import TransactionOptions
from rmqspark.sink.transactions.commit import commit
from rmqspark.testing.ports import reserved_port

from ..batches import committed, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.testing.rmq import Rmq

    from .conftest import Processes

    Run = Callable[..., Any]

pytestmark = pytest.mark.integration


def test_transactions_are_listed_and_described(ok: Run, cli: Run, rmq: Rmq, topic: str) -> None:
    """What was committed last, what is open, where, for how long: as a table, in full, and for scripts."""
    committed(rmq.namesrv, topic, 4, "a", "b")
    (state,) = [state for state in ok("txn", "list", "--json").json if state["transactionalId"] == topic]
    assert (state["version"], state["lastVersion"], state["rows"]) == (4, 4, 2)
    assert state["bytes"] > len("ab")
    assert 0 <= state["ageMs"] < 600_000
    (row,) = [line for line in ok("txn", "list").lines if topic in line]
    assert re.search(rf"{state['epoch']} +4 +version 4 is committed .* broker-a +2 +{state['bytes']} ", f"{row} ")
    written(rmq.namesrv, topic, 5, "c")
    described = ok("txn", "describe", topic).out
    assert f"q-{topic}" in described
    assert "version 5 is being written" in described
    document = ok("txn", "describe", topic, "--json").json
    assert (document["version"], document["rows"], document["brokers"]) == (5, 1, ["broker-a"])
    missing = cli("txn", "describe", "nobody")
    assert missing.code == 1
    assert "rmq txn list" in missing.err


def test_a_rollback_asks_and_cannot_be_taken_back(ok: Run, cli: Run, rmq: Rmq, topic: str) -> None:
    """What is open is given up once somebody says so; a decision that was made stays."""
    committed(rmq.namesrv, topic, 0, "a")
    message = written(rmq.namesrv, topic, 1, "b")
    refused = cli("txn", "rollback", topic)
    assert refused.code == 2
    assert "Version 1" in refused.err
    assert "--yes" in refused.err
    assert "rolled back, decided by" in ok("txn", "rollback", topic, "--yes").out
    assert "was given up by" in ok("txn", "rollback", topic, "--yes").out
    facts = " ".join(ok("txn", "describe", topic).out.split())
    assert re.search(r"decided by \S+@\S+, 20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ", facts)
    with ClusterClient(rmq.namesrv) as client, pytest.raises(Exception, match="closed to this run"):
        commit(client, TransactionOptions(), [message])
    committed(rmq.namesrv, topic, 1, "b")  # the driver runs the batch again, which changes nothing about who did what
    facts = " ".join(ok("txn", "describe", topic).out.split())
    assert re.search(r"decided by driver, 20\d\d-", facts)
    assert re.search(r"by hand version 1 rolled back by \S+@\S+, 20\d\d-\d\d-\d\d ", facts)
    (manual,) = ok("txn", "describe", topic, "--json").json["manual"]
    assert (manual["version"], manual["decision"], "@" in manual["by"]) == (1, "ROLLBACK", True)
    assert [message.body for message in rmq.messages(topic)] == [b"a", b"b"]


def test_what_is_settled_is_said_as_it_is(ok: Run, cli: Run, rmq: Rmq, topic: str) -> None:
    """The newest version is committed and complete, those before it are older: nobody is asked about either."""
    committed(rmq.namesrv, topic, 0, "a")
    committed(rmq.namesrv, topic, 1, "b")
    newest, older = (cli("txn", "rollback", topic, "--version", version) for version in "10")
    assert (newest.code, older.code) == (1, 1)
    assert newest.err.startswith(
        f"Error: Nothing of '{topic}' was rolled back. Version 1 is committed and complete: that stands.\n"
    )
    assert older.err.startswith(
        f"Error: Nothing of '{topic}' was rolled back. "
        "Version 0 is older than 1, which is committed: what became of it stands.\n"
    )
    stands = "Version 1 is committed and complete: that stands."
    assert ok("txn", "commit", topic, "--version", "1").out == f"{stands}\n"
    decided = {"transactionalId": topic, "version": 1, "decision": "committed", "story": stands}
    assert ok("txn", "commit", topic, "--version", "1", "--json").json == decided
    assert [message.body for message in rmq.messages(topic)] == [b"a", b"b"]


def test_an_audit_shows_both_sides(ok: Run, cli: Run, rmq: Rmq, topic: str) -> None:
    """Per batch what was read, committed and written; by query or by transactional id."""
    committed(rmq.namesrv, topic, 0, "a", "b")
    committed(rmq.namesrv, topic, 1, "c")
    shown = ok("audit", f"q-{topic}").out
    assert re.search(r"2 batches since 20[-0-9 :]+Z: what was read is not known", shown)  # by a source that is not ours
    assert "only what was written is checked, 3 rows committed; no gaps, no duplicates." in shown
    document = ok("audit", topic, "--json").json
    assert (document["gaps"], document["duplicates"], document["findings"]) == (0, 0, [])
    assert [batch["rows"] for batch in document["batches"]] == [2, 1]
    assert not document["inputsTold"]
    untold = cli("audit", topic, output=Path("/dev/full"))
    assert (untold.code, "The disk is full" in untold.err) == (4, True)  # 1 would be gaps


def test_a_version_is_told_as_it_is_said(ok: Run, rmq: Rmq, topic: str) -> None:
    """It is a name, such as a day: with commas `--version` would not take it."""
    committed(rmq.namesrv, topic, 20_261_127, "a")
    for words in (["txn", "list"], ["txn", "describe", topic], ["audit", topic]):
        shown = ok(*words).out
        assert ("20261127" in shown, "20,261,127" in shown) == (True, False), shown


def test_an_audit_of_what_is_not_there_is_no_gap(cli: Run, processes: Processes) -> None:
    """An exit code of its own, as nobody who answers has: scripts tell the three apart."""
    unknown = cli("audit", "nobody")
    assert (unknown.code, unknown.out, "rmq txn list" in unknown.err) == (3, "", True)
    with reserved_port() as port:
        silent = processes.run("audit", "totals", "--namesrv", f"127.0.0.1:{port}")
    assert (silent.code, silent.out) == (4, "")
    assert silent.err.startswith("Error: No name server answers")
    assert cli("audit", "").code == 2


def test_an_audit_ends_with_1_where_something_is_missing_or_twice(cli: Run, rmq: Rmq, topic: str) -> None:
    """What batches have read is compared from one to the next; scripts see it by the exit code."""
    query = f"q-{topic}"
    with ClusterClient(rmq.namesrv) as client:
        keeper = input_keeper(client, query)
        for version, (first, end) in enumerate([(0, 5), (7, 9), (8, 12)]):
            report_input(keeper, query, version, [InputRange("", "in", "broker-a", 0, first, end)]).result()
            committed(rmq.namesrv, topic, version, "x")
    shown = cli("audit", query)
    assert shown.code == 1
    assert f"gap in version 1 of {topic}: Input in/broker-a/0, offsets 5 to 6, is in no batch." in shown.out
    assert f"duplicate in version 2 of {topic}: Input in/broker-a/0, offsets 8 to 8, is in two batches." in shown.out
    assert "Z: 11 messages read, 3 rows committed; 2 messages missing, 1 message twice." in shown.out
    told = cli("audit", query, "--json")
    assert (told.code, told.json["gaps"], told.json["duplicates"]) == (1, 2, 1)
    assert [each["kind"] for each in told.json["findings"]] == ["gap", "duplicate"]


def test_an_audit_knows_queries_as_rmq_spark_does(ok: Run, cli: Run, rmq: Rmq, topic: str) -> None:
    """By name, and by group, as far as brokers have heard of them."""
    name, group = f"name of {topic}", f"group-{topic}"
    committed(rmq.namesrv, topic, 0, "a", "b")
    with ClusterClient(rmq.namesrv) as client:
        report_query(client, QueryReport(f"q-{topic}", "run", name, queues=[QueryQueue(group, "in", "broker-a")]))
        report_query(client, QueryReport(f"idle-{topic}", "run", f"idle {topic}"))
        for query in ("one", "two"):
            report_query(client, QueryReport(f"{query}-{topic}", "run", f"both {topic}"))
    for called in (name, group):
        assert [batch["rows"] for batch in ok("audit", called, "--json").json["batches"]] == [2]
    assert "was committed exactly-once" in cli("audit", f"idle {topic}").err
    assert "may be any of 2 queries" in cli("audit", f"both {topic}").err


def test_an_audit_tells_a_reset_that_was_wanted(ok: Run, rmq: Rmq, topic: str) -> None:
    """What a query reads again because its group was set back is neither missing nor twice, and no fault."""
    query = f"q-{topic}"
    with ClusterClient(rmq.namesrv) as client:
        keeper = input_keeper(client, query)
        for version, (first, end) in enumerate([(0, 5), (2, 9)]):
            piece = InputRange("", "in", "broker-a", 0, first, end, topicEpoch=version)
            report_input(keeper, query, version, [piece]).result()
            committed(rmq.namesrv, topic, version, "x")
    why = "its group was set there, its topic was made anew, or its broker lost the end of its store"
    story = f"Input in/broker-a/0 was read on from offset 2 instead of 5: {why}."
    shown = ok("audit", query).out
    assert f"reset in version 1 of {topic}: {story}" in shown
    assert "Z: 12 messages read, 2 rows committed; no gaps, no duplicates." in shown
    told = ok("audit", query, "--json").json
    assert (told["gaps"], told["duplicates"], [each["story"] for each in told["resets"]]) == (0, 0, [story])


def test_what_others_wrote_in_between_is_no_part_of_a_batch() -> None:
    """A range of an audit says how many of its rows are the batch's, where that is not all, and how many went."""
    told = [_output(OutputRange("t", "broker-a", 3, 5, 9, rows)) for rows in (None, 2)]
    assert told == ["t/broker-a/3 5–9", "t/broker-a/3 5–9 (2 rows of them)"]
    assert _output(OutputRange("t", "broker-a", 3, deleted=2)) == "t/broker-a/3 (2 rows deleted with the topic)"


def test_an_audit_of_many_queues_is_summed_up_where_it_is_narrow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A narrow terminal shows how much in how many queues of each topic, a narrower one that row by row; a wide one, or
    a pipe, the offsets too."""
    outputs = [OutputRange("out", "b", number, 5, 9, rows) for number, rows in enumerate((None, 3))]
    gone = OutputRange("out", "b", 7, deleted=2)
    inputs = [InputRange("", "in", f"b{number % 2}", number, 0, 600) for number in range(8)]
    batch = AuditedBatch("id", "q", 1, rows=9, inputs=inputs, outputs=[*outputs, gone])

    def shown(columns: int, *, terminal: bool = True) -> str:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
        monkeypatch.setenv("COLUMNS", str(columns))
        _show(Proof("q", [batch], [], [], []))
        return capsys.readouterr().out

    narrow, narrower = shown(160), shown(100)
    assert re.search(
        r"4,800 in 8 queues of in +9 rows +7 in 2 queues of out; 2 in 1 queue of out, deleted with it", narrow
    )
    assert "\nwritten    7 in 2 queues of out; 2 in 1 queue of out, deleted with it\n" in narrower
    assert ("with --json" in narrow, "with --json" in narrower) == (True, True)
    for wide in (shown(1_000), shown(80, terminal=False)):
        assert "in/b1/7 0–600" in wide
        assert "out/b/1 5–9 (3 rows of them), out/b/7 (2 rows deleted with the topic)" in wide
        assert "--json" not in wide


def test_an_operator_commits_only_what_a_driver_has_asked_for(cli: Run, rmq: Rmq, topic: str) -> None:
    """Who does not know which attempts count cannot commit; the refusal says what can be done, and changes nothing."""
    message = written(rmq.namesrv, topic, 0, "a")
    asked = cli("txn", "commit", topic)
    assert (asked.code, "make its rows readable for good?" in asked.err) == (2, True)
    refused = cli("txn", "commit", topic, "--yes")
    assert refused.code == 1
    assert "can only be rolled back" in refused.err
    with ClusterClient(rmq.namesrv) as client:
        commit(client, TransactionOptions(), [message])
    assert [message.body for message in rmq.messages(topic)] == [b"a"]
    late = cli("txn", "rollback", topic, "--yes")
    assert (late.code, "a decision stays" in late.err) == (1, True)
