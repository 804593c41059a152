"""Addresses as RocketMQ writes them: host:port, IPv6 hosts in brackets."""

from __future__ import annotations

import errno
import ipaddress

from rmqspark.errors import InvalidArgument, PortInUse, RmqError, Unreachable
from rmqspark.whole_numbers import whole_number


def parse_address(address: str) -> tuple[str, int]:
    """ "10.0.0.5:10911" → ("10.0.0.5", 10911). Raises InvalidArgument with the form that is right."""
    host, _, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    number = whole_number(port) or 0
    if not host or not 0 < number < 65536 or (":" in host and not bracketed):
        raise InvalidArgument(f"{address!r} is not an address.", hint="Write it as host:port, e.g. 127.0.0.1:9876.")
    return (host[1:-1] if bracketed else host), number


def format_address(host: str, port: int) -> str:
    """The reverse of `parse_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def cannot_listen(error: OSError, host: str, port: int, setting: str) -> RmqError:
    """The error for an address that the system lets nobody listen on; `setting` is what would change the port."""
    if error.errno == errno.EADDRINUSE:
        return PortInUse(host, port, setting)
    return InvalidArgument(f"Cannot listen on {format_address(host, port)}: {error.strerror}.")


def no_host_name(host: str, address: str) -> Unreachable:
    """The error for an address whose host no name service can be asked for: a label empty or too long, or a character
    that names cannot have."""
    return Unreachable(f"Nothing answers at {address}: {host!r} cannot be the name of a host.", address=address)


def is_loopback(host: str) -> bool:
    """True if what listens on `host` can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_ipv4(host: str) -> bool:
    """Whether it is an IPv4 address: no name, nor one of IPv6."""
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True
