"""`rmq` signs by the environment, or by the file that --credentials names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.signature import signature
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, wait_for_close

if TYPE_CHECKING:
    from pathlib import Path

    from rmqspark.testing.scripted_peer import Conversation, PeerRequest

    from .conftest import Outcome, Processes

pytestmark = pytest.mark.integration

SECRET = "s3cret"
BY_ENVIRONMENT = {"RMQ_ACCESS_KEY": "env", "RMQ_SECRET_KEY": "env key"}


def ask(processes: Processes, *words: str, **variables: str) -> tuple[Outcome, PeerRequest]:
    """Asks a name server that refuses for its topics: how the command ended, and what it had sent."""
    refused = answer(ResponseCode.NO_PERMISSION, remark="check signature failed.")
    with ScriptedPeer([_read, refused, wait_for_close()]) as peer:
        outcome = processes.run(*words, "topic", "list", "--namesrv", peer.address, **variables)
    return outcome, peer.requests[0]


def _read(conversation: Conversation) -> None:
    conversation.read()


def keys(path: Path, mode: int = 0o600) -> Path:
    path.write_text(f'access_key = "file"\nsecret_key = "{SECRET}"\n')
    path.chmod(mode)
    return path


def is_signed(request: PeerRequest, access_key: str, secret_key: str) -> bool:
    right = signature(request.fields, request.body, secret_key)
    return (request.fields["AccessKey"], request.fields["Signature"]) == (access_key, right)


def test_who_signs(processes: Processes) -> None:
    """The environment's keys, else its file; --credentials stands above both. A refusal says what to set."""
    path = str(keys(processes.directory / "keys"))
    outcome, request = ask(processes, **BY_ENVIRONMENT)
    assert is_signed(request, "env", "env key")
    assert outcome.code == 1
    assert "check signature failed.\n  The secret key is not this user's. It comes from RMQ_ACCESS_KEY" in outcome.err
    assert is_signed(ask(processes, RMQ_CREDENTIALS=path)[1], "file", SECRET)
    assert is_signed(ask(processes, "--credentials", path, **BY_ENVIRONMENT)[1], "file", SECRET)
    assert is_signed(ask(processes, "--credentials", "keys")[1], "file", SECRET)
    assert ask(processes)[1].fields == {}


def test_mistakes(processes: Processes) -> None:
    """A file that others can read, one that is not there, half a pair of keys: nobody is asked anything."""
    seen = processes.run("--credentials", str(keys(processes.directory / "open", 0o644)), "topic", "list")
    assert (seen.code, "Others can read it, its mode is 644.\n  Say: chmod 600" in seen.err) == (2, True)
    gone = processes.run("--credentials", "nowhere", "topic", "list")
    assert (gone.code, "--credentials nowhere cannot be read: No such file" in gone.err) == (2, True)
    half = processes.run("topic", "list", RMQ_ACCESS_KEY="ak")
    assert (half.code, "$RMQ_SECRET_KEY is not." in half.err) == (2, True)
    assert processes.run("--credentials", "", "topic", "list").code == 2
    assert SECRET not in seen.err
