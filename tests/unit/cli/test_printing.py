"""What `rmq` prints, on a terminal and in a pipe."""

from __future__ import annotations

import io
import json
import sys
from unittest.mock import MagicMock

import pytest

from rmqspark.cli.group import describe as describe_group
from rmqspark.cli.group import seconds_behind
from rmqspark.cli.terminal.options import confirm
from rmqspark.cli.terminal.output import (
    complain,
    fits_terminal,
    json_text,
    print_facts,
    print_json,
    print_table,
    safe,
    table_text,
)
from rmqspark.cli.topic import describe
from rmqspark.client.administration.descriptions import GroupDescription, GroupQueue, TopicDescription, TopicOnBroker
from rmqspark.errors import InvalidArgument
from rmqspark.model import MessageQueue

QUEUE = MessageQueue("t", "broker-a", 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message cannot move the cursor or clear the screen; lines and tabs stay; a pipe gets all as it is."""
    body = "a\x1b[2Jb\tc\nd\x07\x9b\u202egnp.exe"
    assert safe(body) == body
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert safe(body) == "a\\x1b[2Jb\tc\nd\\x07\\x9b\\u202egnp.exe"


@pytest.mark.parametrize("indent", [None, 2])
def test_json_on_a_terminal_means_the_same(indent: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON escapes only half of what a terminal obeys."""
    document = {"größe\x9b2J": ["\u202egnp.exe", "\x1b]0;owned\x07\x7f", "a\nb"]}
    assert "\x9b" in json_text(document, indent)
    monkeypatch.setattr(sys, "stdout", Terminal())
    text = json_text(document, indent)
    assert json.loads(text) == document
    assert text.replace("\n", "").isprintable()
    assert "größe" in text


def test_what_went_wrong_is_told_in_print(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's answer is in the error, and a server may be anybody's."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    complain("Error: \x9b2J\x1b]0;owned\x07")
    assert sys.stderr.getvalue() == "Error: \\x9b2J\\x1b]0;owned\\x07\n"


def test_what_servers_call_themselves_is_told_in_print(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may register a broker says what its name is."""
    topic = TopicDescription("t", [TopicOnBroker("b\x1b[2J", 1, 1, "rw")], [], {"c\x9b2J": "away"})
    admin = MagicMock()
    admin.return_value.__enter__.return_value.topic.return_value = topic
    monkeypatch.setattr("rmqspark.client.admin.AdminClient", admin)
    monkeypatch.setattr(sys, "stdout", Terminal())
    describe("t")
    assert sys.stdout.getvalue().startswith("t (NORMAL): 1 queue (rw) on b\\x1b[2J, 0 messages; unknown on c\\x9b2J\n")


def test_what_queries_are_called_is_told_in_print(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may report one says what its name is."""
    admin = MagicMock()
    admin.return_value.__enter__.return_value.group.return_value = GroupDescription("g", [], [])
    admin.return_value.__enter__.return_value.spark_readers.return_value = ["the\x1b[2Jbills"]
    monkeypatch.setattr("rmqspark.client.admin.AdminClient", admin)
    monkeypatch.setattr(sys, "stdout", Terminal())
    describe_group("g")
    assert "Read by the Spark query the\\x1b[2Jbills" in sys.stdout.getvalue()


def test_tables_say_unknown_rather_than_guess(capsys: pytest.CaptureFixture[str]) -> None:
    """None is unknown, large numbers are readable, and an empty table is a sentence."""
    print_table(("group", "lag", "all"), [("a", None, True), ("b", 1234567, False)], empty="None.")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["a", "unknown", "yes"] in lines
    assert ["b", "1,234,567", "no"] in lines
    print_table(("group",), [], empty="None yet.")
    print_facts({"topic": "t", "offset": 1000})
    assert capsys.readouterr().out == "None yet.\ntopic   t\noffset  1,000\n"


def test_words_of_others_are_printed_as_they_are() -> None:
    """Of a key between colons Rich would make a picture, of brackets a colour; a table is as wide as it has to be."""
    ranges = ", ".join(f"orders/broker-a/{number} 5–9" for number in range(1_000))
    text = table_text(("key", "tags", "read", "version"), [("user:id:42", "[red]", ranges, 12_345)])
    assert [word for word in ("user:id:42", "[red]", ranges, "12,345") if word not in text] == []


def test_characters_of_two_columns_are_counted_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that a terminal would wrap is not said to fit it."""
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "24")
    assert fits_terminal(("name",), [("a" * 20,)])
    assert fits_terminal(("name",), [("字" * 10,)])
    assert not fits_terminal(("name",), [("字" * 13,)])


def test_a_row_that_its_headings_do_not_fit_is_not_printed() -> None:
    """Its values would stand under the names of others."""
    with pytest.raises(ValueError, match="longer than"):
        print_table(("topic", "brokers"), [("orders", "normal", 1)], empty="")


def test_numbers_are_under_each_other() -> None:
    """One sees at a glance which is the largest, and nothing hangs over the end of a line."""
    text = table_text(("topic", "messages", "state"), [("a", 1, "ok"), ("b", 1_234_567, "silent")])
    assert text.splitlines()[2:] == ["a               1   ok", "b       1,234,567   silent"]
    assert text.splitlines()[0] == "topic    messages   state"


def test_a_table_that_a_terminal_would_wrap_is_told_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapped line belongs to no heading any more, and a figure without its last digits would be another one."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    print_table(("group", "members", "lag"), [("billing", 1, 1_234_567), ("mail", 2, None)], empty="")
    told = "group    billing\nmembers  1\nlag      1,234,567\n\ngroup    mail\nmembers  2\nlag      unknown\n"
    assert terminal.getvalue() == told


def test_json_is_one_line_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts get one document on one line, people an indented one."""
    print_json({"größe": 1})
    assert capsys.readouterr().out == '{"größe": 1}\n'
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_json({"a": 1})
    assert json.loads(terminal.getvalue()) == {"a": 1}
    assert terminal.getvalue().count("\n") > 1


@pytest.mark.parametrize(
    ("queue", "seconds"),
    [
        (GroupQueue(QUEUE, 5, 5), 0),
        (GroupQueue(QUEUE, 4, 5, 7_000), 3),
        (GroupQueue(QUEUE, 4, 5, 12_000), 0),  # the broker's clock is ahead of ours
        (GroupQueue(QUEUE, 4, 5), None),
        (GroupQueue(QUEUE, None, 5), None),
    ],
)
def test_how_far_a_queue_is_behind_in_time(queue: GroupQueue, seconds: int | None) -> None:
    """As long as its first unread message has been waiting; unknown where that is."""
    assert seconds_behind(queue, 10_000) == seconds


def test_what_cannot_be_undone_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """--yes goes ahead; without it, and without a terminal, nothing happens."""
    confirm("Delete?", yes=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(InvalidArgument, match="Nobody can be asked here.*--yes"):
        confirm("Delete?", yes=False)


def test_a_question_is_asked_in_print(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is to be replaced may be anybody's."""
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    confirm("From \x1b[2J to b?", yes=False)
    assert "From \\x1b[2J to b?" in capsys.readouterr().err


def test_ctrl_c_at_a_question_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends `rmq` with 130 as everywhere, and not as if the verb had failed; so does the end of the input."""
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    with pytest.raises(KeyboardInterrupt):
        confirm("Delete?", yes=False)


@pytest.mark.parametrize(("answer", "goes_ahead"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_terminal_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, goes_ahead: bool
) -> None:
    """Only a yes is a yes. The question is seen where the output goes into a pipe, and is no part of it."""
    import typer

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    if goes_ahead:
        confirm("Delete?", yes=False)
    else:
        with pytest.raises(typer.Exit) as stopped:
            confirm("Delete?", yes=False)
        assert stopped.value.exit_code == 1
    printed = capsys.readouterr()
    assert (printed.out.strip(), "Delete?" in printed.err) == ("", True)
