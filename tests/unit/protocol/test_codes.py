"""The numbers of the protocol, and the right each request needs."""

from __future__ import annotations

import pytest

from rmqspark.protocol.access_classes import ACCESS, Access
from rmqspark.protocol.codes import TRUNCATED_CODES, Language, RequestCode, ResponseCode
from rmqspark.protocol.headers.registry import REQUEST_HEADERS


@pytest.mark.parametrize("code", RequestCode)
def test_every_request_needs_a_right(code: RequestCode) -> None:
    """There is no request that a server would take from just anybody by oversight."""
    assert ACCESS[code] in Access


# What was asked for, code by code.
DECLARED = {
    Access.ADMIN_WRITE: {17, 18, 200, 207, 215, 225, 25, 318, 100, 102, 205, 327, 216, 217, 222, 314, 306, 316, 329}
    | {323, 908, 309, 30018},
    Access.ADMIN_READ: {26, 319, 43, 45, 201, 203, 204, 307, 328, 30017, 30022, 30041, 30050},
    Access.CLUSTER_PEER: {103, 104, 322, 904, 905, 906, 30013, 30014, 30019, 30023, 30060},
    Access.DATA_WRITE: {10, 310, 320, 324, 325, 37, 30001, 30010, 30011, 30012},
    Access.DATA_READ: {11, 361, 12, 14, 29, 30, 31, 32, 33, 105, 30000, 30002, 30020, 30030, 30031, 30040},
}


@pytest.mark.parametrize("access", DECLARED)
def test_rights_are_what_the_security_page_says(access: Access) -> None:
    """No administrative request can be had with a right to data, and none between servers with any other."""
    assert {code for code in DECLARED[access] if ACCESS[RequestCode(code)] is not access} == set()


def test_no_request_that_changes_the_cluster_needs_less_than_admin() -> None:
    """Names that promise a change of the broker's set-up are administration."""
    changing = ("UPDATE_AND_", "DELETE_", "CLEAN_", "WIPE_", "ADD_WRITE", "PUT_", "CLONE_", "UPDATE_BROKER", "SET_")
    for code in RequestCode:
        if code.name.startswith(changing):
            assert ACCESS[code] is Access.ADMIN_WRITE, code.name


def test_our_own_requests_fit_a_binary_header() -> None:
    """The requests that only rmqspark has are outside RocketMQ's numbers and within 16 bits."""
    ours = [code for code in RequestCode if code.name.startswith("RMQ_")]
    bulk, transactions, groups, queries = range(30000, 30007), range(30010, 30024), (30030, 30031), (30040, 30041)
    assert [int(code) for code in ours] == [*bulk, *transactions, *groups, *queries, 30050, 30060]


def test_truncated_codes_are_no_codes_of_their_own() -> None:
    """Mapping the numbers of truncated requests back hides no other request."""
    assert set(TRUNCATED_CODES).isdisjoint(RequestCode)
    assert TRUNCATED_CODES[3442] is RequestCode.POP_MESSAGE
    assert all(code & 0xFFFF == short for short, code in TRUNCATED_CODES.items())


def test_headers_belong_to_requests() -> None:
    """Every header is that of a request we know."""
    assert set(REQUEST_HEADERS) <= set(RequestCode)


def test_languages_have_a_name_and_a_number() -> None:
    """Clients in languages that we do not know are OTHER, by name and by number."""
    assert Language.named("GO") is Language(9) is Language.GO
    assert Language.named("COBOL") is Language(99) is Language.OTHER


def test_response_codes_are_rocketmqs() -> None:
    """The answers that decide what a stock client does have RocketMQ's numbers."""
    assert ResponseCode.SYSTEM_BUSY == 2
    assert ResponseCode.TOPIC_NOT_EXIST == 17
    assert ResponseCode.PULL_OFFSET_MOVED == 21
    assert ResponseCode.QUERY_NOT_FOUND == 22
    assert ResponseCode.GO_AWAY == 1500
