"""What routes and pages share: the cluster, looked at through one client, and changed only on the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmqspark.admin.action_log import ActionLog
from rmqspark.admin.actions import Actions
from rmqspark.admin.config import AdminConfig
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.settings import SettingInfo

if TYPE_CHECKING:
    from rmqspark.clock import Clock


@dataclass(frozen=True, slots=True)
class Desk:
    """Closed with the application. Everything on it may be used by several threads."""

    config: AdminConfig
    cluster: ClusterClient
    log: ActionLog
    actions: Actions
    known_settings: Mapping[str, SettingInfo]

    @classmethod
    def opened(
        cls, config: AdminConfig, namesrv: str | None, clock: Clock, known_settings: Mapping[str, SettingInfo]
    ) -> Desk:
        """StoreError where changes cannot be recorded, StoreLocked where another does; no cluster need be there yet.
        `known_settings` are those of brokers whose meaning can be told, by name."""
        cluster = ClusterClient(namesrv, clock=clock)
        log = ActionLog(Path(config.action_log or "rmq-admin-actions.jsonl"), clock)
        return cls(config, cluster, log, Actions(cluster, log), known_settings)

    def close(self) -> None:
        self.actions.close()
        self.cluster.close()
        self.log.close()
