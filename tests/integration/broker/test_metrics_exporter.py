"""The port that a stock broker.conf opens for Prometheus: what it answers, and what it lets nobody do."""

from __future__ import annotations

import asyncio
import http.client
import socket
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rmqspark import AdminClient
from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.metrics.exporter import Exporter
from rmqspark.broker.metrics.families import FAMILIES
from rmqspark.errors import Busy, InvalidArgument, NotThereYet, PortInUse
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.settings import load, parse_file
from rmqspark.testing import cluster
from rmqspark.testing.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from .conftest import Bench

pytestmark = pytest.mark.integration

PATIENCE_S = 60


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a broker's exporter."""
    with reserved_port() as port:
        config = BrokerConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=port)
        with cluster(broker_config=config):
            yield port


def asked(port: int, path: str = "/metrics", method: str = "GET") -> tuple[int, str, str]:
    """Status, content type and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type", ""), response.read().decode()
    finally:
        connection.close()


def test_prometheus_gets_what_it_asks_for(port: int) -> None:
    """The same metrics as by request, as the text that they are said to be."""
    status, content_type, text = asked(port)
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"rocketmq_topic_number", "rmqspark_broker_info", "rocketmq_storage_size_bytes"} <= names
    assert asked(port, "/metrics?name[]=up")[0] == 200


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/", "GET", 404), ("/metrics", "POST", 405), ("/x", "PUT", 405)]
)
def test_there_is_nothing_else(port: int, path: str, method: str, status: int) -> None:
    """And it is said."""
    assert asked(port, path, method)[0] == status


def test_a_header_is_all_that_some_want(port: int) -> None:
    """HEAD has the length, and no body."""
    status, _, text = asked(port, method="HEAD")
    assert (status, text) == (200, "")


@pytest.mark.parametrize("sent", [b"x" * 100_000, b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 20_000, b"\x16\x03\x01"])
def test_what_is_no_request_is_cut_off(port: int, sent: bytes) -> None:
    """However long it is, and who asks next is answered."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        try:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        except ConnectionError:
            pass  # it had seen enough
    assert asked(port)[0] == 200


async def nothing() -> AsyncIterator[bytes]:
    yield b"up 1\n"


def test_those_who_say_nothing_keep_nobody_out_for_long() -> None:
    """More clients than are served at a time are cut off; those that are silent, after some seconds."""

    async def start() -> None:
        exporter = Exporter(nothing, host="127.0.0.1", port=0, insecure=False, request_timeout_ms=300)
        async with exporter, asyncio.timeout(PATIENCE_S):
            port = int(exporter.address.rpartition(":")[2])
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for reader, writer in silent:
                with suppress(ConnectionError):
                    assert await reader.read() == b""
                writer.close()
            assert (await asyncio.to_thread(asked, port))[0] == 200

    asyncio.run(start())


async def too_many() -> AsyncIterator[bytes]:
    raise Busy("others wait")
    yield b""


def test_a_port_that_is_taken_is_named_with_the_setting() -> None:
    """Before the broker serves anybody."""

    async def start() -> None:
        async with Exporter(nothing, host="127.0.0.1", port=0, insecure=False) as exporter:
            port = int(exporter.address.rpartition(":")[2])
            with pytest.raises(PortInUse, match=str(port)):
                async with Exporter(nothing, host="127.0.0.1", port=port, insecure=False):
                    pass

    asyncio.run(start())


def test_beyond_this_machine_it_must_be_said() -> None:
    """As for all that listens without authentication."""
    with pytest.raises(InvalidArgument, match="without authentication"):
        Exporter(nothing, host="0.0.0.0", port=0, insecure=False)
    assert Exporter(nothing, host="0.0.0.0", port=0, insecure=True)


def test_whoever_would_wait_too_long_is_told() -> None:
    """503, which scrapers take for down for a moment."""

    async def start() -> None:
        async with Exporter(too_many, host="127.0.0.1", port=0, insecure=False) as exporter:
            port = int(exporter.address.rpartition(":")[2])
            status, _, text = await asyncio.to_thread(asked, port)
            assert (status, text) == (503, "others wait\n")

    asyncio.run(start())


def test_a_stock_broker_conf_is_understood() -> None:
    """With the settings of RocketMQ's exporter, in its spelling."""
    config = load(
        BrokerConfig,
        file=parse_file(
            "metricsExporterType=PROM\nmetricsPromExporterHost=127.0.0.1\nmetricsPromExporterPort=5558\n"
            "metricsLabel=zone:east\nmetricsInDelta=false\nenableLagAndDlqMetrics=false\nenablePopMetrics=true\n"
        ),
    )
    assert config.exports_metrics
    assert (config.metrics_prom_exporter_port, config.enable_lag_and_dlq_metrics) == (5558, False)
    assert not BrokerConfig().exports_metrics
    with pytest.raises(NotThereYet, match="OTLP_GRPC"):
        load(BrokerConfig, file=parse_file("metricsExporterType=OTLP_GRPC\n"))


def test_what_is_switched_off_is_not_told() -> None:
    """What is ours has no switch."""
    off = {family.switch: False for family in FAMILIES if family.switch}
    config = replace(BrokerConfig(metrics_in_delta=True), **off)
    with cluster(broker_config=config) as mq, AdminClient(mq.namesrv) as admin:
        families = list(text_string_to_metric_families(admin.metrics("broker-a")))
        assert families
        assert all(family.name.startswith("rmqspark_") for family in families)
        assert all(sample.labels["aggregation"] == "delta" for family in families for sample in family.samples)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 5557), timeout=PATIENCE_S)


def test_scrapes_wait_for_each_other_and_few_may(on_broker: Callable[..., Any]) -> None:
    """One at a time; whoever finds eight waiting is told that the broker is busy."""

    async def scrape(bench: Bench) -> list[int]:
        talk = await bench.connect()
        answers = await asyncio.gather(*(talk.ask(RequestCode.RMQ_METRICS) for _ in range(20)))
        return [answer.code for answer in answers]

    codes = on_broker(scrape)
    assert sorted(set(codes)) == [ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY]
    assert codes.count(ResponseCode.SUCCESS) == 8
