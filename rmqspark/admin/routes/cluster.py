"""/cluster, /brokers, /config."""

from __future__ import annotations

from fastapi import APIRouter

from rmqspark.admin.reads import cluster as look
from rmqspark.admin.routes.given import TheDesk, Who
from rmqspark.admin.schemas.cluster import BrokerView, ClusterView, SettingsChange, SettingView

router = APIRouter(tags=["cluster"])


@router.get("/cluster")
def get_cluster(desk: TheDesk) -> ClusterView:
    """Name servers and brokers, each asked how it is, and what is wrong."""
    return look.cluster(desk.cluster)


@router.get("/brokers")
def get_brokers(desk: TheDesk) -> list[BrokerView]:
    """All brokers that are registered."""
    return look.brokers(desk.cluster)


@router.get("/brokers/{broker}")
def get_broker(desk: TheDesk, broker: str) -> BrokerView:
    """One broker."""
    return look.broker(desk.cluster, broker)


@router.get("/config/{broker}")
def get_config(desk: TheDesk, broker: str) -> list[SettingView]:
    """A broker's settings; secrets are not among them."""
    return look.settings(desk.cluster, broker, desk.known_settings)


@router.patch("/config/{broker}")
def set_config(desk: TheDesk, who: Who, broker: str, change: SettingsChange) -> list[SettingView]:
    """Changes settings that are live. The others take a restart, and are refused."""
    desk.actions.set_config(who, broker, change.settings)
    return look.settings(desk.cluster, broker, desk.known_settings)
