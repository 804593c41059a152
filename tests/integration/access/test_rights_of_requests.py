"""Every request code, asked by nobody, with a wrong signature, by a reader, a writer and a super user (F1)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from rmqspark.auth.rights import RIGHTS
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.remoting.access import Credentials
from rmqspark.testing.memory_files import MemoryFileSystem

from .samples import GROUP, TOPIC, TRANSACTION, sample

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.integration

PAGE: Final = (Path(__file__).parents[3] / "docs" / "wire-format.md").read_text(encoding="utf-8")
ROW: Final = re.compile(r"^\| (\d+) \| `\w+` \| [a-z-]+ \| ([^|]+) \| ([a-z, ]+) \|$", re.MULTILINE)
TOLD: Final = {int(code): needs for code, needs, _ in ROW.findall(PAGE)}
_ACTION: Final = "(?:Pub|Sub|Create|Update|Delete|Get|List)"
PART: Final = re.compile(rf"(.+?) ({_ACTION}(?: or {_ACTION})*)")

READER, WRITER, LIAR = Credentials("reader", "r-secret"), Credentials("writer", "w-secret"), Credentials("root", "liar")
RIGHTS_OF: Final = {
    READER: {f"Topic_{TOPIC}": "Sub,Get", f"Group_{GROUP}": "Sub,Get"},
    WRITER: {f"Topic_{TOPIC}": "Pub", f"Group_{TRANSACTION}": "Pub"},
}


SUPERS_ALONE: Final = {int(RequestCode.RMQ_ACCOUNTS)}  # passwords are no other user's, whatever he may do


def may(code: int, rights: Mapping[str, str]) -> bool:
    """Whether these rights are enough, as the page has it."""
    if TOLD[code] in ("any user", "super users"):
        return TOLD[code] == "any user"
    return all(_covers(rights, *PART.fullmatch(part).groups()) for part in TOLD[code].split(" · "))


def _covers(rights: Mapping[str, str], what: str, actions: str) -> bool:
    names = {
        f"Group_{TRANSACTION}": "transactional id" in what,
        f"Group_{GROUP}": "Group" in what and "transactional id" not in what,
        f"Topic_{TOPIC}": "Topic" in what,
        "Cluster": "Cluster" in what,
    }
    wanted = [name for name, is_meant in names.items() if is_meant]
    if not wanted or "*" in what:
        return False
    return all(not set(actions.split(" or ")).isdisjoint(rights.get(name, "").split(",")) for name in wanted)


def outcome(remark: str | None) -> str:
    """What the guard said, or that it let the request pass."""
    text = remark or ""
    for words, meaning in (
        ("username cannot be null", "who?"),
        ("check signature failed", "wrong"),
        ("has no permission to", "no right"),
    ):
        if words in text:
            return meaning
    return "passed"


async def _answers(talk: Any, requests: Mapping[int, tuple[Any, bytes]]) -> dict[int, tuple[int, str]]:
    answers = {code: await talk.ask(code, *request) for code, request in requests.items()}
    return {code: (answer.code, outcome(answer.remark)) for code, answer in answers.items()}


@pytest.mark.parametrize("role", ["broker", "name server"])
def test_every_request_is_for_whom_the_page_says(guarded, role) -> None:
    """The guard lets each request pass, or not, exactly as docs/wire-format.md tells; before its handler is asked."""

    async def talk(cluster) -> None:
        address = cluster.broker.address if role == "broker" else cluster.namesrv.address
        root = await cluster.talk(cluster.root_user, address)
        await cluster.root.create_topic(TOPIC)
        msg_id = (await cluster.root.send(TOPIC)).fields["msgId"]
        await cluster.root.done(RequestCode.RMQ_TXN_REPORT_INPUT, *sample(RequestCode.RMQ_TXN_REPORT_INPUT, 0, ""))
        for user, rights in RIGHTS_OF.items():
            await root.create_user(user)
            await root.allow(user, **rights)

        place = parse_offset_msg_id(msg_id)[1]
        requests = {int(code): sample(code, place, msg_id) for code in RequestCode}
        served = {code for code in requests if await serves(root, code)}
        assert served - set(RIGHTS) == served & SUPERS_ALONE  # an entry for each other

        nobody = await _answers(await cluster.talk(None, address), requests)
        liar = await _answers(await cluster.talk(LIAR, address), requests)
        assert {code: nobody[code] for code in served} == dict.fromkeys(served, (ResponseCode.NO_PERMISSION, "who?"))
        assert {code: liar[code] for code in served} == dict.fromkeys(served, (ResponseCode.NO_PERMISSION, "wrong"))
        for user, rights in RIGHTS_OF.items():
            answers = await _answers(await cluster.talk(user, address), requests)
            told = {code: "passed" if may(code, rights) else "no right" for code in served}
            assert {code: answers[code][1] for code in served} == told
        answers = await _answers(root, requests)
        assert {code: answers[code][1] for code in served} == dict.fromkeys(served, "passed")

    guarded(talk, names=MemoryFileSystem())


async def serves(root: Any, code: int) -> bool:
    """Asked without what it needs, so that nothing comes of it."""
    return bool((await root.ask(code)).code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
