"""The console: pages over `reads` and `actions`, served by the application that has REST. It is NiceGUI's, and imports
it only when it is attached: REST alone starts without.

Pages are pure: they make `nodes` of documents. `live` reads the documents again and again, `mounted` shows the nodes in
a browser and changes what has changed. One console a process: NiceGUI has one table of pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from rmqspark.admin.desk import Desk


def attach(app: FastAPI, desk: Desk) -> None:
    """Has the application serve the console of this desk from /. Of several in one process the last is served."""
    from rmqspark.admin.console.attaching import attach as attach_pages

    attach_pages(app, desk)
