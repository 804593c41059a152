"""Source and sink are told of their cluster in the same words."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.access import VARIABLES
from rmqspark.client.cluster_options import OPTIONS, access_of
from rmqspark.errors import InvalidArgument
from rmqspark.remoting.access import OPEN, Access, Credentials, Tls
from rmqspark.remoting.tls.contexts import client_context
from rmqspark.sink.option_table import SINK_OPTIONS
from rmqspark.sink.options import SinkOptions
from rmqspark.source.option_table import SOURCE_OPTIONS
from rmqspark.source.options import SourceOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.options import OptionTable


@pytest.mark.parametrize("table", [SOURCE_OPTIONS, SINK_OPTIONS], ids=["source", "sink"])
@pytest.mark.parametrize("name", ["namesrv", "NAMESRV", "nameServer", "namesrvAddr"])
def test_name_servers_go_by_three_names(table: OptionTable, name: str) -> None:
    """Ours, and those that RocketMQ's own connectors use."""
    assert table.read({name: " h1:9876;h2:9876 "}) == {"namesrv": "h1:9876;h2:9876"}


SIGNED = {"accessKey": "ak", "secretKey": "s3cret"}
CREDENTIALS = Credentials("ak", "s3cret")


def source_stream(given: dict[str, str]) -> Access:
    return SourceOptions.parse({"subscribe": "t", **given}, streaming=True).access


def source_batch(given: dict[str, str]) -> Access:
    return SourceOptions.parse({"subscribe": "t", **given}, streaming=False).for_tasks.access


def sink(given: dict[str, str]) -> Access:
    return SinkOptions.parse({"topic": "t", **given}, streaming=True).access


@pytest.fixture(params=[source_stream, source_batch, sink], ids=["stream", "batch", "sink"])
def parse(request: pytest.FixtureRequest) -> Callable[[dict[str, str]], Access]:
    """Each place where a query says what it shows servers."""
    return request.param


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({}, OPEN),
        (SIGNED, Access(CREDENTIALS)),
        ({"ACCESSKEY": "ak", "secretkey": "s3cret", "SecurityToken": "t"}, Access(Credentials("ak", "s3cret", "t"))),
        ({"tlsEnable": "false"}, OPEN),
        ({"tlsEnable": "TRUE"}, Access(tls=Tls(names=OPTIONS))),
        (
            {**SIGNED, "tlsEnable": "true", "tlsTrustCertPath": "/ca", "tlsCertPath": "/c", "tlsKeyPath": "/k"},
            Access(CREDENTIALS, Tls("/ca", "/c", "/k", names=OPTIONS)),
        ),
        (
            {"tlsEnable": "true", "tlsKeyPassword": "p", "tlsAuthServer": "false", "tlsCheckHost": "false"},
            Access(tls=Tls(key_password="p", auth_server=False, check_host=False, names=OPTIONS)),
        ),
    ],
)
def test_what_a_query_shows_servers(
    parse: Callable[[dict[str, str]], Access], given: dict[str, str], meant: Access
) -> None:
    """The same options on both sides, in whatever case, reach the tasks."""
    assert parse(given) == meant


@pytest.mark.parametrize(
    ("given", "story"),
    [
        ({"accessKey": "ak"}, "'accessKey' needs 'secretKey': requests are signed with both"),
        ({"secretKey": "s3cret"}, "'secretKey' needs 'accessKey'"),
        ({"securityToken": "s3cret"}, "'securityToken' needs 'accessKey'"),
        ({"accessKey": "ak", "secretKey": " "}, "'secretKey' cannot be ' ': it is empty"),
        ({"accessKey": "ak", "secretKey": "s3\ncret"}, "secret_key has characters that no key has"),
        ({"tlsTrustCertPath": "/ca"}, "'tlsTrustCertPath' has no meaning without tlsEnable=true"),
        ({"tlsEnable": "false", "tlsKeyPassword": "s3cret"}, "'tlsKeyPassword' has no meaning without tlsEnable=true"),
        ({"tlsEnable": "yes"}, "'tlsEnable' cannot be 'yes': true or false is accepted"),
        ({"tlsEnabled": "true"}, "no option 'tlsEnabled'. Did you mean 'tlsEnable'"),
        ({"secretkeys": "s3cret"}, "no option 'secretkeys'. Did you mean 'secretKey'"),
    ],
)
def test_mistakes_are_named_and_no_secret_is(
    parse: Callable[[dict[str, str]], Access], given: dict[str, str], story: str
) -> None:
    """One half without the other is never taken for none."""
    with pytest.raises(InvalidArgument) as raised:
        parse(given)
    assert story in str(raised.value)
    assert "cret" not in str(raised.value).replace("secret", "")


def test_a_query_goes_by_the_driver_s_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no option says, of keys or of TLS, the environment does; what one says stands above it as a whole."""
    monkeypatch.setenv("RMQ_ACCESS_KEY", "env")
    monkeypatch.setenv("RMQ_SECRET_KEY", "key")
    monkeypatch.setenv("RMQ_SECURITY_TOKEN", "token")
    monkeypatch.setenv("RMQ_TLS_ENABLE", "true")
    of_environment = Credentials("env", "key", "token")
    assert access_of({}) == Access(of_environment, Tls(names=VARIABLES))
    assert access_of(SIGNED) == Access(CREDENTIALS, Tls(names=VARIABLES))
    assert access_of({"tlsEnable": False}) == Access(of_environment)


def test_a_store_without_a_broker_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody is asked nothing is signed: an option for it is a contradiction, the environment does not count."""
    monkeypatch.setenv("RMQ_ACCESS_KEY", "without its secret")
    assert SourceOptions.parse({"store": "/data"}, streaming=False).access == OPEN
    with pytest.raises(InvalidArgument, match="'store' and 'accessKey' exclude each other"):
        SourceOptions.parse({"store": "/data", **SIGNED}, streaming=False)


def test_options_show_no_secret() -> None:
    """What is pickled to tasks may be printed by whoever finds it: keys and passwords are stars there."""
    given = {**SIGNED, "securityToken": "t0ken", "tlsEnable": "true", "tlsKeyPassword": "pa55"}
    shown = [
        SourceOptions.parse({"subscribe": "t", **given}, streaming=False),
        SourceOptions.parse({"subscribe": "t", **given}, streaming=False).for_tasks,
        SinkOptions.parse({"topic": "t", **given}, streaming=False),
    ]
    for options in shown:
        text = f"{options} {options!r} {options}"
        assert "Credentials('ak', ***)" in text
        assert not any(secret in text for secret in ("s3cret", "t0ken", "pa55"))


@pytest.mark.parametrize(
    ("given", "environ", "said"),
    [
        ({"tlsenable": "true", "tlstrustcertpath": "/nowhere"}, {}, "tlsTrustCertPath /nowhere cannot be read"),
        (
            {"tlsEnable": "true", "tlsKeyPath": "/nowhere"},
            {},
            "tlsKeyPath is the key of no certificate. Name tlsCertPath.",
        ),
        (
            {},
            {"RMQ_TLS_ENABLE": "true", "RMQ_TLS_CLIENT_CERT_PATH": "/nowhere"},
            "$RMQ_TLS_CLIENT_CERT_PATH /nowhere cannot be read",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_called_as_the_user_called_it(
    parse: Callable[[dict[str, str]], Access],
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    environ: dict[str, str],
    said: str,
) -> None:
    """By the option, or the variable: RocketMQ's setting of the same meaning is nothing that he wrote."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    access = pickle.loads(pickle.dumps(parse(given)))  # as it comes to a task
    assert access.tls is not None
    with pytest.raises(InvalidArgument) as refused:
        client_context(access.tls)
    assert str(refused.value).startswith(said)
