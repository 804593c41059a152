"""The fixtures that rmqspark gives to its users' tests, with a real Spark: tests here have them from where users do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmqspark.testing.rmq import Rmq

pytestmark = pytest.mark.spark


def test_spark_frames_come_and_go(rmq: Rmq, rmq_spark: SparkSession) -> None:
    """A topic is a Spark frame in one line, and a frame is sent in one."""
    rmq.send("in", b"1", b"2")
    rmq.send_df(rmq.to_df(rmq_spark, "in").select("body"), "out")
    assert rmq.to_df("out").count() == 2
    assert sorted(message.body for message in rmq.messages("out")) == [b"1", b"2"]
