"""Which name servers are used, and what is refused."""

from __future__ import annotations

import pytest

from rmqspark.client.cluster.addresses import parse_addresses, resolve_namesrv
from rmqspark.errors import InvalidArgument


@pytest.mark.parametrize(
    ("explicit", "environ", "expected"),
    [
        (None, {}, "127.0.0.1:9876"),
        (None, {"NAMESRV_ADDR": "b:1"}, "b:1"),
        (None, {"RMQ_NAMESRV": "a:1", "NAMESRV_ADDR": "b:1"}, "a:1"),
        ("c:1", {"RMQ_NAMESRV": "a:1"}, "c:1"),
        (None, {"RMQ_NAMESRV": "", "NAMESRV_ADDR": "b:1"}, "b:1"),
        (None, {"RMQ_NAMESRV": "", "NAMESRV_ADDR": ""}, "127.0.0.1:9876"),
        (" h1:9876 ; h2:9876; ", {}, "h1:9876;h2:9876"),
        ("[::1]:9876", {}, "[::1]:9876"),
    ],
)
def test_the_nearest_word_counts(explicit: str | None, environ: dict[str, str], expected: str) -> None:
    """An argument beats $RMQ_NAMESRV, which beats $NAMESRV_ADDR, which beats this machine."""
    assert resolve_namesrv(explicit, environ) == expected


@pytest.mark.parametrize(
    "wrong",
    ["localhost", "localhost:", ":9876", "h:0", "h:65536", "h:x", "http://h:1", "::1:9876", "a:1,b:2", ";", "\udcff:1"],
)
def test_what_is_no_address_is_refused_with_the_right_form(wrong: str) -> None:
    """A wrong address is an error that shows how one is written."""
    with pytest.raises(InvalidArgument, match=r"127\.0\.0\.1:9876"):
        parse_addresses(wrong)


@pytest.mark.parametrize("empty", ["", " ", ";"])
def test_an_empty_word_is_not_the_default(empty: str) -> None:
    """A variable of a program that was to name the servers and does not: nobody wants another queue for that."""
    with pytest.raises(InvalidArgument, match=r"namesrv is empty.*127\.0\.0\.1:9876"):
        resolve_namesrv(empty, {"RMQ_NAMESRV": "a:1"})


def test_several_are_one_text() -> None:
    """A list, as other clients take it, is answered with the way it is written here."""
    with pytest.raises(InvalidArgument, match=r"namesrv is \['h1:9876'\].*semicolons"):
        resolve_namesrv(["h1:9876"], {})  # type: ignore[arg-type]


def test_the_error_names_the_variable_it_came_from() -> None:
    """Who set a wrong address in the environment learns which variable it was."""
    with pytest.raises(InvalidArgument, match="RMQ_NAMESRV"):
        resolve_namesrv(None, {"RMQ_NAMESRV": "nonsense"})
