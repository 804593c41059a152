"""Writes the tables of docs/operations.md from the settings themselves: `python docs/generate.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

from rmqspark.broker.config import BrokerConfig
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.remoting.limits import Limits
from rmqspark.settings import describe
from rmqspark.store.config import StoreConfig

PAGE = Path(__file__).with_name("operations.md")
KINDS = {"broker": BrokerConfig, "store": StoreConfig, "namesrv": NamesrvConfig, "limits": Limits}


def table(kind: type) -> str:
    """One Markdown row a setting: name, default with unit, meaning."""
    rows = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for info in describe(kind):
        default = str(info.default).lower() if info.kind is bool else str(info.default)
        shown = "–" if info.default in (None, "") else f"`{default}`" + (f" {info.unit}" if info.unit else "")
        rows.append(f"| `{info.name}` | {shown} | {info.meaning[0].upper()}{info.meaning[1:].rstrip('.')} |")
    return "\n".join(rows)


def renewed(page: str) -> str:
    """The page with each table between its markers made anew."""
    for name, kind in KINDS.items():
        begin, end = f"<!-- settings: {name} -->", f"<!-- end: {name} -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}\n{table(kind)}\n{end}{rest.split(end)[1]}"
    return page


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv[1:]:
        if renewed(page) != page:
            sys.exit("docs/operations.md does not show today's settings. Mend it with: make fix")
    else:
        PAGE.write_text(renewed(page), encoding="utf-8")


if __name__ == "__main__":
    main()
