"""`rmq dashboards export`: writes the files, and says what to do with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Json, Yes, confirm, said_path
from rmqspark.cli.terminal.output import print_json
from rmqspark.errors import InvalidArgument

app = VerbGroup(help="Grafana dashboards and Prometheus rules. Example: rmq dashboards export -o monitoring")

RULES_FILE = "rmqspark-rules.yml"


@app.command("export")
def export(
    directory: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", parser=said_path, help="Where to; made if it is not there.")
    ] = Path("rmq-dashboards"),
    datasource: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The data source in Grafana that is chosen at first. Default: Grafana's."),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Writes dashboards for Grafana and rules for Prometheus.

    They go by the names that RocketMQ's brokers (5.1.4 and newer) and ours have on the wire; those of Spark queries and
    exactly-once transactions are ours alone. It asks before it replaces files that say something else.

    Example: rmq dashboards export -o monitoring --datasource Prometheus
    """
    written = _write(directory, datasource, yes=yes)
    if as_json:
        dashboards, rules = written[:-1], written[-1]
        print_json({"dashboards": [str(path) for path in dashboards], "rules": str(rules)})
        return
    for path in written:
        print(path)
    print()
    print(
        "Next: in Grafana, Dashboards, New, Import takes each .json. Prometheus takes the rules in its configuration:"
    )
    print(f"  rule_files: [{json.dumps(str(written[-1].resolve()))}]")


def _write(directory: Path, datasource: str | None, *, yes: bool) -> list[Path]:
    """The dashboards' files, and at the end the rules'."""
    from rmqspark.cli.dashboards.grafana import dashboard_json
    from rmqspark.cli.dashboards.overview import OVERVIEW
    from rmqspark.cli.dashboards.rules import rules_yaml
    from rmqspark.cli.dashboards.spark import SPARK
    from rmqspark.cli.dashboards.topics import TOPICS

    if directory.exists() and not directory.is_dir():
        raise InvalidArgument(f"-o {directory} is not a directory.", hint="Name one; it is made if it is not there.")
    files = {
        f"{each.uid}.json": json.dumps(dashboard_json(each, datasource), indent=2) + "\n"
        for each in (OVERVIEW, TOPICS, SPARK)
    } | {RULES_FILE: rules_yaml()}
    directory.mkdir(parents=True, exist_ok=True)
    others = [name for name, text in files.items() if _says_else(directory / name, text)]
    if others:
        confirm(f"{directory} has {' and '.join(others)} with other contents. Replace them?", yes=yes)
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in files]


def _says_else(path: Path, text: str) -> bool:
    """Whether there is such a file, of an earlier version or changed by hand."""
    return path.exists() and path.read_bytes() != text.encode()
