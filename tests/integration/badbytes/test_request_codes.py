"""Every number that a request may have: answered by whom the page says, or refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from rmqspark.protocol.access_classes import ACCESS
from rmqspark.protocol.codes import TRUNCATED_CODES, RequestCode, ResponseCode
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.testing.fuzz.attack import converse, served_codes
from rmqspark.testing.fuzz.victim import Victim

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

PAGE: Final = (Path(__file__).parents[3] / "docs" / "wire-format.md").read_text(encoding="utf-8")
ROW: Final = re.compile(r"^\| (\d+) \| `(\w+)` \| ([a-z-]+) \| [^|]+ \| ([a-z, ]+) \|$", re.MULTILINE)
UNKNOWN: Final = [
    code
    for code in (*range(1_000), *range(29_990, 30_100), -1, 2**31 - 1, -(2**31))
    if code not in {*RequestCode, *TRUNCATED_CODES}
]


def unserved_on_the_page() -> set[int]:
    """The numbers and ranges that the page calls "not served yet"."""
    said = re.search(r"\*\*Not served yet\*\*.*?are of a broker's: (.*?)\n\n", PAGE, re.DOTALL)
    assert said is not None
    ends = [(int(low), int(high or low)) for low, high in re.findall(r"(\d+)(?:\s+to\s+(\d+))?", said[1])]
    return {code for low, high in ends for code in range(low, high + 1)}


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with Victim(tmp_path_factory.mktemp("codes")) as running:
        yield running


@pytest.mark.parametrize("role", ["broker", "name server"])
def test_what_is_answered_is_on_the_page_with_its_right(victim: Victim, role: str) -> None:
    """A server answers no request that the page does not say it is asked, with the right that it needs."""
    asked = {int(code): right for code, _, right, of in ROW.findall(PAGE) if role in of.split(", ")}
    served = served_codes(victim.broker if role == "broker" else victim.namesrv)
    assert len(served) > 20
    assert {code: asked.get(code) for code in served} == {code: ACCESS[RequestCode(code)].value for code in served}


@pytest.mark.parametrize("role", ["broker", "name server"])
def test_what_is_not_answered_yet_is_said_on_the_page(victim: Victim, role: str) -> None:
    """The page promises no request that a server refuses: it names those that wait until they are there."""
    asked = {int(code) for code, _, _, of in ROW.findall(PAGE) if role in of.split(", ")}
    served = served_codes(victim.broker if role == "broker" else victim.namesrv)
    assert asked - set(served) == (unserved_on_the_page() & asked if role == "broker" else set())


@pytest.mark.parametrize("role", ["broker", "name server"])
def test_unknown_requests_are_refused(victim: Victim, role: str) -> None:
    """A number that nobody has given a meaning, and so no right, is answered as not supported and nothing else."""
    wire = b"".join(b"".join(encode_request(code, opaque)) for opaque, code in enumerate(UNKNOWN))
    answers = converse(victim.broker if role == "broker" else victim.namesrv, wire)
    assert [answer.opaque for answer in answers] == list(range(len(UNKNOWN)))
    assert {answer.code for answer in answers} == {ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
    assert victim.complaints() == []
