"""`rmq up` with TLS: its broker registers, or somebody is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from tests.certificates import Authority

    from .conftest import Processes

pytestmark = pytest.mark.integration

UP = ("up", "--store", "store", "--namesrv-port", "0", "--broker-port", "0", "--admin-port", "0")
GUARDED = """
authenticationEnabled=true
initAuthenticationUser={"username":"root","password":"root-secret"}
innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"inner-secret"}
"""


def flags(authority: Authority) -> list[str]:
    made = authority.issue()
    server = ["--tls-server-cert-path", made.cert_path, "--tls-server-key-path", made.key_path]
    return [*server, "--tls-server-mode", "enforcing"]


def test_a_broker_that_could_not_register_is_refused(processes: Processes, authority: Authority) -> None:
    """At the start, with the setting that is missing."""
    ended = processes.run("up", "--no-admin", *flags(authority))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Error: tls_server_mode is enforcing, and tls_enable is not on")
    assert "\n  Set tls_enable, and tls_client_trust_cert_path" in ended.err


@pytest.mark.parametrize("is_trusted", [True, False])
def test_whether_it_is_registered_is_told(processes: Processes, authority: Authority, *, is_trusted: bool) -> None:
    """With the authority it is; without, people are told beside the address of what they would look for in vain."""
    trust = ["--tls-client-trust-cert-path", authority.path] if is_trusted else []
    server = processes.up(*flags(authority), "--tls-enable", "true", *trust)
    told = "broker-a is not registered with the name server"
    assert (told in processes.errors) is not is_trusted
    tls = {"RMQ_TLS_ENABLE": "true", "RMQ_TLS_CLIENT_TRUST_CERT_PATH": authority.path}
    listed = processes.run("cluster", "info", "--json", RMQ_NAMESRV=server.namesrv, **tls)
    assert [each["brokerName"] for each in listed.json["brokers"]] == (["broker-a"] if is_trusted else [])


def test_rest_and_console_call_servers_as_the_brokers_do(processes: Processes, authority: Authority) -> None:
    """By the flags of `rmq up`, with the keys of `rmq --credentials`: nothing has to be in the environment."""
    (processes.directory / "broker.conf").write_text(GUARDED)
    (processes.directory / "root.toml").write_text('access_key = "root"\nsecret_key = "root-secret"\n')
    (processes.directory / "root.toml").chmod(0o600)
    trust = ["--tls-enable", "true", "--tls-client-trust-cert-path", authority.path]
    words = ("--credentials", "root.toml", *UP, *flags(authority), *trust, "-c", "broker.conf")
    server = processes.serve(*words, RMQ_TLS_ENABLE="false")
    answer = httpx.get(f"{server.endpoints['admin']}/api/v1/brokers", timeout=60)
    assert [each["brokerName"] for each in answer.json()["items"]] == ["broker-a"]


def test_rmq_admin_calls_servers_as_the_file_of_brokers_says(processes: Processes, authority: Authority) -> None:
    """Which name servers there are, and that they speak TLS, stands in one place."""
    trust = f'tls_enable = true\ntls_client_trust_cert_path = "{authority.path}"\n'
    (processes.directory / "queue.toml").write_text(trust)
    namesrv = processes.up(*flags(authority), "-c", "queue.toml").namesrv
    (processes.directory / "queue.toml").write_text(f'namesrv_addr = "{namesrv}"\n{trust}')
    (url,) = re.findall(r"http://\S+:\d+", processes.serve("admin", "--port", "0", "-c", "queue.toml").greeting)
    answer = httpx.get(f"{url}/api/v1/brokers", timeout=60)
    assert [each["brokerName"] for each in answer.json()["items"]] == ["broker-a"]


def test_who_encrypts_as_a_client_can_start_a_queue(processes: Processes) -> None:
    """REST and console beside it do without TLS as it does, and it is told."""
    around = {"RMQ_TLS_ENABLE": "true", "RMQ_TLS_CLIENT_TRUST_CERT_PATH": "of-another-cluster.pem"}
    server = processes.serve(*UP, **around)
    assert "$RMQ_TLS_ENABLE is left aside" in processes.errors
    answer = httpx.get(f"{server.endpoints['admin']}/api/v1/brokers", timeout=60)
    assert [each["brokerName"] for each in answer.json()["items"]] == ["broker-a"]


def test_a_file_is_called_as_it_was_named(processes: Processes, authority: Authority) -> None:
    """By a flag, a variable, or the setting in a file."""
    (processes.directory / "trust.toml").write_text('tls_client_trust_cert_path = "missing.pem"\n')
    (processes.directory / "queue.toml").write_text('tls_server_cert_path = "missing.pem"\n')
    for words, environment, name in (
        (["--tls-server-cert-path", "missing.pem"], {}, "--tls-server-cert-path"),
        ([], {"RMQ_TLS_SERVER_CERT_PATH": "missing.pem"}, "$RMQ_TLS_SERVER_CERT_PATH"),
        (["-c", "queue.toml"], {}, "tls_server_cert_path"),
        ([*flags(authority), "--tls-enable", "true", "-c", "trust.toml"], {}, "tls_client_trust_cert_path"),
    ):
        ended = processes.run("up", "--no-admin", *words, **environment)
        assert (ended.code, ended.out) == (2, "")
        assert f"Error: {name} missing.pem cannot be read: No such file or directory.\n" in ended.err
