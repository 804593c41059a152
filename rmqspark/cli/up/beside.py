"""Whether the brokers of `rmq up` reach the name server beside them, by their settings, and by what came of it; and
which are not among them."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqspark.client.cluster.access import TLS_VARIABLE
from rmqspark.errors import InvalidArgument
from rmqspark.remoting.address import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.cli.servers.setting_flags import Sources
    from rmqspark.namesrv.server import NameServer


def without_clients_switch(broker: BrokerConfig, sources: Sources) -> BrokerConfig:
    """$RMQ_TLS_ENABLE is the switch of clients, too. Where nothing else says that servers here are to speak TLS, and
    none could, it was meant for clients of other clusters: the broker does without, and people are told."""
    is_only_theirs = broker.tls_enable and not sources.says("tls_enable") and broker.tls_serving is None
    if not is_only_theirs or not is_loopback(broker.bind_address):
        return broker
    print(
        f"${TLS_VARIABLE} is left aside, as no certificate is named (tls_server_cert_path): clients of this queue do "
        "without TLS.",
        file=sys.stderr,
    )
    return replace(broker, tls_enable=False)


def check_they_can_talk(broker: BrokerConfig) -> None:
    """The name server has the broker's settings of who listens. Raises InvalidArgument, which names the setting of who
    calls that is missing: such a broker would run, and stay unknown."""
    serving = broker.tls_serving
    if serving is None and broker.tls_enable:
        raise InvalidArgument(
            "tls_enable is on, and the name server beside the broker has no TLS: the broker could not register.",
            hint="Name a certificate with tls_server_cert_path and tls_server_key_path, or leave tls_enable out "
            "(beyond loopback RMQ_TLS_ENABLE=true sets it).",
        )
    if serving is not None and serving.enforcing and not broker.tls_enable:
        raise InvalidArgument(
            "tls_server_mode is enforcing, and tls_enable is not on: the broker could not register with the name "
            "server beside it.",
            hint="Set tls_enable, and tls_client_trust_cert_path to the authority of the certificate.",
        )
    if serving is not None and serving.need_client_auth == "require" and broker.tls_enable:
        _check_certificate(broker)


def _check_certificate(broker: BrokerConfig) -> None:
    if not broker.tls_client_cert_path:
        raise InvalidArgument(
            "tls_server_need_client_auth is require, and the broker has no certificate to show the name server.",
            hint="Name one with tls_client_cert_path and tls_client_key_path.",
        )


def tell_of_unknown(namesrv: NameServer, brokers: Iterable[str]) -> None:
    """What settings alone do not show: a certificate that is not trusted, a user whose password is another by now."""
    for name in brokers:
        if not namesrv.knows(name):
            print(
                f"{name} is not registered with the name server: clients do not find it. The line 'not registered' "
                "above says why; it goes on trying.",
                file=sys.stderr,
            )


def tell_of_unserved(store: Path, names: Iterable[str], served: int) -> None:
    """Of the stores of brokers so called, in that order, those behind the first `served`: left by a start with more of
    them. Their part of each topic would be missed without a word, for no name server knows of them. Not of what may not
    be looked into, as another user's: these could not be served here."""
    for count, name in enumerate(names, start=1):
        if count > served and _is_left_out(store / name):
            print(
                f"{store / name} is the store of a broker, too, and is not served: nobody can read what is in it. "
                f"With --brokers {count} it is.",
                file=sys.stderr,
            )


def _is_left_out(directory: Path) -> bool:
    from rmqspark.store.inspection.store import is_in_use
    from rmqspark.store.posix_files import PosixFileSystem

    try:
        return (directory / "commitlog").is_dir() and not is_in_use(PosixFileSystem(directory))
    except OSError:
        return False
