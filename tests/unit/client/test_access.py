"""Who a client says it is, and what it must not tell anybody else."""

from __future__ import annotations

import pickle

import pytest

from rmqspark import Access, AdminClient, Credentials, Producer, Tls
from rmqspark.client.cluster.access import VARIABLES, access_of_environment, resolve_access
from rmqspark.client.cluster.shared import shared_client
from rmqspark.errors import InvalidArgument
from rmqspark.remoting.access import OPEN
from rmqspark.source.lag import LagListener

NOWHERE = "127.0.0.1:1"
KEYS = {"RMQ_ACCESS_KEY": "ak", "RMQ_SECRET_KEY": "s3cret"}
TLS = {"RMQ_TLS_ENABLE": "true"}


@pytest.mark.parametrize(
    ("environ", "meant"),
    [
        ({}, OPEN),
        ({"RMQ_ACCESS_KEY": "", "RMQ_SECRET_KEY": "", "RMQ_CREDENTIALS": "", "RMQ_TLS_ENABLE": ""}, OPEN),
        (KEYS, Access(Credentials("ak", "s3cret"))),
        ({**KEYS, "RMQ_SECURITY_TOKEN": "t"}, Access(Credentials("ak", "s3cret", "t"))),
        ({**KEYS, "RMQ_CREDENTIALS": "/nowhere"}, Access(Credentials("ak", "s3cret"))),
        (TLS, Access(tls=Tls(names=VARIABLES))),
        ({"RMQ_TLS_ENABLE": "false", "RMQ_TLS_CLIENT_CERT_PATH": "/c"}, OPEN),
        (
            {
                **TLS,
                "RMQ_TLS_CLIENT_TRUST_CERT_PATH": "/ca",
                "RMQ_TLS_CLIENT_CERT_PATH": "/c",
                "RMQ_TLS_CLIENT_KEY_PATH": "/k",
                "RMQ_TLS_CLIENT_KEY_PASSWORD": "p",
                "RMQ_TLS_CLIENT_AUTH_SERVER": "False",
                "RMQ_TLS_CLIENT_CHECK_HOST": "false",
            },
            Access(tls=Tls("/ca", "/c", "/k", "p", auth_server=False, check_host=False, names=VARIABLES)),
        ),
    ],
)
def test_what_the_environment_says(environ: dict[str, str], meant: Access) -> None:
    """RocketMQ's names for TLS, and a key with its secret; an empty variable counts as not set."""
    assert access_of_environment(environ) == meant


@pytest.mark.parametrize(
    ("environ", "story"),
    [
        ({"RMQ_ACCESS_KEY": "ak"}, "$RMQ_ACCESS_KEY is set, and $RMQ_SECRET_KEY is not."),
        ({"RMQ_SECRET_KEY": "s3cret"}, "$RMQ_SECRET_KEY is set, and $RMQ_ACCESS_KEY is not."),
        ({"RMQ_SECURITY_TOKEN": "s3cret"}, "$RMQ_SECURITY_TOKEN is set, and $RMQ_ACCESS_KEY is not."),
        ({**KEYS, "RMQ_SECRET_KEY": "s3cret\n"}, "secret_key has characters that no key has. A newline at its end"),
        ({**KEYS, "RMQ_SECRET_KEY": "s3cret\udce9"}, "secret_key has characters that no key has."),
        ({"RMQ_TLS_ENABLE": "yes"}, "$RMQ_TLS_ENABLE is 'yes'. true or false is accepted."),
        ({**TLS, "RMQ_TLS_CLIENT_CHECK_HOST": "0"}, "$RMQ_TLS_CLIENT_CHECK_HOST is '0'."),
        ({"RMQ_TLS_CLIENT_CERT_PATH": "/c"}, "$RMQ_TLS_CLIENT_CERT_PATH is set, and $RMQ_TLS_ENABLE is not."),
    ],
)
def test_half_of_a_pair_is_a_mistake(environ: dict[str, str], story: str) -> None:
    """The error names the variable that is missing or wrong: nothing goes out unsigned or in clear by a slip."""
    with pytest.raises(InvalidArgument) as raised:
        access_of_environment(environ)
    assert story in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "story"),
    [
        (Access(Credentials("", "s3cret")), "access_key is empty."),
        (Access(Credentials("ak", "")), "secret_key is empty."),
        (Access(Credentials("ak", b"s3cret")), "secret_key must be text, not bytes."),  # type: ignore[arg-type]
        (Access(("ak", "s3cret")), "credentials of an Access cannot be of type tuple. Write"),  # type: ignore[arg-type]
        (Access(tls=True), "tls of an Access cannot be of type bool. Write Access(tls="),  # type: ignore[arg-type]
        (Credentials("ak", "s3cret"), "access is <Credentials object>, but must be an Access"),
        (("ak", "s3cret"), "access is <tuple object>, but must be an Access(credentials, tls) or None. Write access="),
    ],
)
def test_slips_show_no_secret(given: object, story: str) -> None:
    """What is said in the wrong form is not printed: it may be a secret in the wrong place."""
    with pytest.raises(InvalidArgument) as raised:
        Producer(NOWHERE, access=given)  # type: ignore[arg-type]
    assert story in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_a_listener_is_refused_what_a_client_is() -> None:
    """At once, as with an address that is none: Spark only logs what a listener raises later."""
    with pytest.raises(InvalidArgument, match="access cannot be of type tuple"):
        LagListener(NOWHERE, access=("ak", "s3cret"))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="secret_key is empty"):
        LagListener(NOWHERE, access=Access(Credentials("ak", "")))


def test_what_a_client_was_told_stands_above_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Access() says nothing on purpose; None is what the environment says."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    assert resolve_access() == Access(Credentials("ak", "s3cret"))
    assert resolve_access(Access()) == OPEN
    assert shared_client(NOWHERE) is shared_client(NOWHERE, Access(Credentials("ak", "s3cret")))
    assert shared_client(NOWHERE) is not shared_client(NOWHERE, OPEN)


def test_a_client_is_refused_half_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it asks anybody."""
    monkeypatch.setenv("RMQ_ACCESS_KEY", "ak")
    with pytest.raises(InvalidArgument, match="RMQ_SECRET_KEY is not"):
        AdminClient(NOWHERE)


def test_nothing_secret_is_printed() -> None:
    """Not by itself, not inside of others, and not as what came out of a pickle."""
    access = Access(Credentials("ak", "s3cret", "t0ken"), Tls(key_path="/k", key_password="pa55"))
    for each in (access, pickle.loads(pickle.dumps(access))):
        shown = f"{each} {each!r} {[each]} {each.credentials} {each.tls!r}"
        assert "'ak'" in shown
        assert "key_path='/k'" in shown
        assert not any(secret in shown for secret in ("s3cret", "t0ken", "pa55"))
