"""/cluster, /brokers, /config."""

from __future__ import annotations

from fastapi import APIRouter

from rmqspark.admin.paging import MOST, USUAL, Cursor, Limit, Page, listed
from rmqspark.admin.reads import cluster as look
from rmqspark.admin.routes.given import TheDesk, Who
from rmqspark.admin.schemas.cluster import BrokerView, ClusterView, SettingsChange, SettingView

router = APIRouter(tags=["cluster"])


@router.get("/cluster")
def get_cluster(desk: TheDesk) -> ClusterView:
    """Name servers and brokers, each asked how it is, and what is wrong."""
    return look.cluster(desk.cluster)


@router.get("/brokers")
def get_brokers(desk: TheDesk, limit: Limit = USUAL, cursor: Cursor = None) -> Page[BrokerView]:
    """All brokers that are registered."""
    return listed(look.brokers(desk.cluster), lambda broker: [broker.broker_name], limit, cursor)


@router.get("/brokers/{broker}")
def get_broker(desk: TheDesk, broker: str) -> BrokerView:
    """One broker."""
    return look.broker(desk.cluster, broker)


@router.get("/config/{broker}")
def get_config(desk: TheDesk, broker: str, limit: Limit = MOST, cursor: Cursor = None) -> Page[SettingView]:
    """A broker's settings; secrets are not among them."""
    settings = look.settings(desk.cluster, broker, desk.known_settings)
    return listed(settings, lambda setting: [setting.setting], limit, cursor)


@router.patch("/config/{broker}")
def set_config(desk: TheDesk, who: Who, broker: str, change: SettingsChange) -> Page[SettingView]:
    """Changes settings that are live, and shows all. The others take a restart, and are refused."""
    desk.actions.set_config(who, broker, change.settings)
    return get_config(desk, broker)
