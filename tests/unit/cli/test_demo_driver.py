"""How the demo tells why its Spark driver ended."""

from __future__ import annotations

from rmqspark.cli.demo.driver import what_went_wrong


def test_jars_that_could_not_be_fetched_are_named() -> None:
    """Without the network Spark has a page of Java to say; the reason is one sentence, and what to do."""
    said = (
        "Host repository.example not found.\n" * 20
        + "[unresolved dependency: io.delta#delta-spark_4.2_2.13;4.4.0: not found]\n"
        + "\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)\n" * 200
    )
    story = what_went_wrong(said)
    assert "Delta Lake could not be fetched" in story
    assert "network" in story
    assert "SparkSubmit" not in story


def test_anything_else_is_told_in_its_last_whole_lines() -> None:
    """Nothing begins in the middle of a word."""
    assert what_went_wrong("only this") == "only this"
    lines = what_went_wrong("\n".join(f"line number {number}" for number in range(1_000))).splitlines()
    assert lines == [f"line number {number}" for number in range(1_000 - len(lines), 1_000)]
    assert len(lines) > 50
