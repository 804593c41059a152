"""What a broker tells of itself: settings, counters and states, metrics; and how it is told a setting. Pure."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Final

from rmqspark.errors import BodyError, InvalidArgument
from rmqspark.protocol.bodies.route import KVTable
from rmqspark.settings import HIDDEN

if TYPE_CHECKING:
    from rmqspark.remoting.response import Response

MAX_METRICS_BYTES: Final = 256 << 20
# In names of settings: initAuthenticationUser and innerClientAuthenticationCredentials hold passwords, headers of
# exporters tokens.
_SECRETS: Final = re.compile(
    "password|passwd|secret|credential|accesskey|token|initauthenticationuser|exporterheader", re.I
)


def config_of(response: Response) -> dict[str, str]:
    """What GET_BROKER_CONFIG answers. RocketMQ's brokers answer with all that is in their file, passwords too."""
    text = str(response.body, "utf-8", "replace")
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): _shown(name, value.strip()) for name, value in pairs}


def _shown(name: str, value: str) -> str:
    return HIDDEN if value and _SECRETS.search(name) else value


def runtime_of(response: Response) -> dict[str, str]:
    """What GET_BROKER_RUNTIME_INFO answers."""
    return KVTable.decode(response.body).table


def metrics_of(response: Response) -> str:
    """What RMQ_METRICS answers. Raises BodyError for what is not that, or grows beyond all reason."""
    inflate = zlib.decompressobj()
    try:
        text = inflate.decompress(response.body, MAX_METRICS_BYTES)
    except zlib.error as error:
        raise BodyError(f"The metrics are damaged: {error}.") from error
    if not inflate.eof:
        raise BodyError(f"The metrics are cut off, or more than {MAX_METRICS_BYTES} bytes.")
    return str(text, "utf-8", "replace")


def setting_line(name: str, value: str) -> str:
    """One line of what UPDATE_BROKER_CONFIG is told. InvalidArgument for more than one: that would be another setting.
    More ends a line than what ends one on a keyboard, and half a character is no text."""
    both = f"{name}{value}"
    if not name.strip() or "=" in name or both.splitlines() != [both] or not _is_text(both):
        raise InvalidArgument(f"{name!r} = {value!r} is no setting: both are one line, the name without a '='.")
    return f"{name}={value}\n"


def _is_text(text: str) -> bool:
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False
