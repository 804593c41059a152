"""Bad requests of somebody who may ask: the guard reads their bodies before the handlers do."""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from rmqspark.auth.rights import RIGHTS
from rmqspark.errors import DecodeError
from rmqspark.protocol.bodies.access_control import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.protocol.signature import ACCESS_KEY, SIGNATURE, signature
from rmqspark.testing.fuzz.attack import converse, first_answer
from rmqspark.testing.fuzz.requests import Requests
from rmqspark.testing.fuzz.victim import Victim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="rmq up tells of itself in /proc"),
]

ROOT, EVE = ("root", "root-secret"), ("eve", "eve-secret")
CONF: Final = f"""
authenticationEnabled=true
authorizationEnabled=true
initAuthenticationUser={{"username":"{ROOT[0]}","password":"{ROOT[1]}"}}
"""
REQUESTS: Final = 1_000
REQUESTS_OF_A_SOAK: Final = 40_000
_AT_A_TIME: Final = 25


def signed(user: tuple[str, str], code: int, fields: dict[str, str], body: bytes, opaque: int = 1) -> bytes:
    own = {name: value for name, value in fields.items() if name != SIGNATURE} | {ACCESS_KEY: user[0]}
    extra = own | {SIGNATURE: signature(own, body, user[1])}
    return b"".join(encode_request(code, opaque, None, body, extra=extra))


def make_eve(address: str) -> None:
    """She may do with topics and groups what she likes, and look at the cluster."""
    rights = [PolicyEntryInfo(["All"], "Allow", key) for key in ("Topic:*", "Group:*")]
    rights.append(PolicyEntryInfo(["Get"], "Allow", "Cluster:*"))
    acl = AclInfo([PolicyInfo(rights)], f"User:{EVE[0]}").encode()
    wanted: tuple[tuple[int, dict[str, str], bytes], ...] = (
        (RequestCode.AUTH_CREATE_USER, {"username": EVE[0]}, UserInfo(EVE[1], None, "Normal").encode()),
        (RequestCode.AUTH_CREATE_ACL, {"subject": f"User:{EVE[0]}"}, acl),
    )
    for request in wanted:
        (answer,) = first_answer(address, signed(ROOT, *request))
        assert answer.code == ResponseCode.SUCCESS, answer.remark


def hers(requests: Requests) -> Iterator[bytes]:
    """What can be read as a request at all, signed by her."""
    while True:
        wire, is_readable = requests.next()
        try:
            frames = FrameDecoder().feed(wire) if is_readable else []
            for raw in map(split_frame, frames):
                command = decode_command(raw)
                yield signed(EVE, command.code, command.fields, bytes(raw.body), command.opaque)
        except (DecodeError, OverflowError):
            continue


@pytest.mark.timeout(3_600)
def test_bad_requests_of_a_user_hurt_nobody(
    tmp_path: Path, amount: Callable[[int, int], int], seed: int, tell: Callable[[str], None]
) -> None:
    """What is wrong with a request makes it refused, and finding out which rights it takes is no fault of a server."""
    (tmp_path / "broker.conf").write_text(CONF)
    wanted, told = amount(REQUESTS, REQUESTS_OF_A_SOAK), Counter[Any]()
    with Victim(tmp_path / "victim", "-c", str(tmp_path / "broker.conf")) as victim:
        for role, address in (("broker", victim.broker), ("namesrv", victim.namesrv)):
            make_eve(address)
            bad = hers(Requests(Random(f"{seed}/{role}/signed"), list(map(int, RIGHTS))))
            for _ in range(wanted // _AT_A_TIME):
                data = b"".join(next(bad) for _ in range(_AT_A_TIME))
                told.update(answer.code for answer in converse(address, data))
            assert victim.complaints() == [], f"seed {seed}, {role}"
        assert victim.stop() == 0
    assert told[ResponseCode.SUCCESS] > 50
    assert told[ResponseCode.NO_PERMISSION] > 10
    tell(f"{wanted:,} requests for each server, seed {seed}: {told[ResponseCode.SUCCESS]:,} carried out")
