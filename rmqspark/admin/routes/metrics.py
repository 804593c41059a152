"""/metrics, at the root: what Prometheus scrapes, of the whole cluster at once."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from rmqspark.admin.metrics import CONTENT_TYPE
from rmqspark.admin.reads import metrics as look
from rmqspark.admin.routes.given import TheDesk

router = APIRouter(tags=["metrics"])


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(desk: TheDesk) -> PlainTextResponse:
    """The metrics of all brokers in Prometheus' text format; one that is away has rmqspark_broker_up 0."""
    return PlainTextResponse(look.metrics(desk.cluster), media_type=CONTENT_TYPE)
