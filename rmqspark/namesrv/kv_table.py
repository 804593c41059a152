"""Key-value configurations by namespace (RocketMQ's KVConfigManager). Pure; kept in memory only.

RocketMQ writes them to kvConfig.json. Ours last as long as the process: their one user, the order configuration of
topics, is set again by `rmq topic` or mqadmin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import Busy, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace whose keys are topics and whose values say "broker-a:4;broker-b:4": exactly these queues, in order."""

MAX_ENTRY_BYTES = 4096
"""Namespace, key and value together: the queues of hundreds of brokers."""

MAX_NAMESPACE_CHARACTERS = 2 * 1024 * 1024
"""Keys and values of a namespace: it is answered whole, with up to 6 bytes for each, and a frame has 16 MiB."""


class KvTable:
    """Strings under (namespace, key), at most `limit` of them, none of them long, nor a namespace of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._namespaces: dict[str, dict[str, str]] = {}

    def put(self, namespace: str, key: str, value: str) -> None:
        """Sets a value. Raises Busy where one more would be too many or too much, InvalidArgument for one that is too
        long."""
        size_bytes = sum(len(text.encode("utf-8", "replace")) for text in (namespace, key, value))
        if size_bytes > MAX_ENTRY_BYTES:
            raise InvalidArgument(
                f"Namespace, key and value have {size_bytes} bytes together, {MAX_ENTRY_BYTES} are allowed."
            )
        table = self._namespaces.get(namespace, {})
        if key not in table and sum(map(len, self._namespaces.values())) >= self._limit:
            raise Busy(f"{self._limit} key-value configurations are kept already, as many as are allowed.")
        others = sum([len(name) + len(kept) for name, kept in table.items() if name != key])
        if others + len(key) + len(value) > MAX_NAMESPACE_CHARACTERS:
            raise Busy(
                f"Namespace {namespace!r} has {others} characters already, of {MAX_NAMESPACE_CHARACTERS} it may have."
            )
        if namespace not in self._namespaces and len(self._namespaces) >= self._limit:
            self._namespaces = {name: kept for name, kept in self._namespaces.items() if kept}
        self._namespaces.setdefault(namespace, table)[key] = value

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Forgets a value; one that is not there is no mistake. A namespace stays when its last key goes, until
        there is need of its room."""
        self._namespaces.get(namespace, {}).pop(key, None)

    def namespace(self, namespace: str) -> Mapping[str, str] | None:
        """All of a namespace; None if nothing was ever put there."""
        return self._namespaces.get(namespace)
