"""`rmq topic schema`: what `.schema(...)` is to say to a topic's JSON bodies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rmqspark.cli.terminal.options import Json, Namesrv
from rmqspark.cli.terminal.output import print_json, safe
from rmqspark.client.browsing.body_sampling import sampled
from rmqspark.client.browsing.body_schema import ddl, one_case, type_name
from rmqspark.errors import MessageNotFound, UnparsableBody
from rmqspark.words import counted

if TYPE_CHECKING:
    from rmqspark.client.browsing.body_schema import Sample


def schema(
    topic: Annotated[str, typer.Argument(help="The topic whose bodies to look at.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many of the newest messages.")] = 1000,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Prints the Spark DDL that fits the bodies (valueFormat=json).

    Examples: rmq topic schema orders | rmq topic schema orders -n 10000 --json

    Texts stay strings, as Spark infers them: say date or timestamp yourself where they are that.
    """
    from rmqspark.client.pull_consumer import PullConsumer

    with PullConsumer(namesrv) as consumer:
        sample = sampled(consumer, topic, count)
    if not sample.bodies:
        raise MessageNotFound(f"Topic {topic!r} has no messages to look at.")
    if sample.bodies == sample.not_objects:
        raise UnparsableBody(
            f"None of {counted(sample.bodies, 'body', 'bodies')} of topic {topic!r} is a JSON object.",
            hint="Text is read with valueFormat=string, anything else as it is.",
        )
    if as_json:
        print_json(_document(topic, sample))
        return
    fields, left_out = one_case(sample.fields)
    print(safe(ddl(fields)))
    if left_out:
        print(
            safe(f"Left out, for Spark takes them for others in another case: {', '.join(left_out)}."), file=sys.stderr
        )
    bad = f", {sample.not_objects:,} of them no JSON objects" if sample.not_objects else ""
    print(f"From {counted(sample.bodies, 'body', 'bodies')} of {topic}{bad}.", file=sys.stderr)


def _document(topic: str, sample: Sample) -> dict[str, object]:
    objects = sample.bodies - sample.not_objects
    fields, left_out = one_case(sample.fields)
    return {
        "topic": topic,
        "ddl": ddl(fields),
        "leftOut": left_out,
        "sampled": sample.bodies,
        "notJson": sample.not_objects,
        "fields": [
            {"name": name, "type": type_name(kind), "missing": objects - sample.present[name]}
            for name, kind in sample.fields.fields.items()
        ],
    }
