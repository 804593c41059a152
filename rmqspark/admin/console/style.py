"""How it looks: one style sheet of our own, in the page itself, so that nothing is painted without it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

FAVICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0b5cad"/>'
    '<path d="M3 5h10M3 8h7M3 11h4" stroke="#fff" stroke-width="1.6" stroke-linecap="round"/></svg>'
)


def head_style(theme: str) -> str:
    """The colours follow the system, unless a theme was chosen: by the page as it comes, or later on <html>."""
    colours = _sheet("colours.css").split("/* --- */")
    light, dark = (each.strip() for each in colours)
    first = {
        "light": f":root{{{light}}}",
        "dark": f":root{{{dark}}}",
        "system": f":root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}",
    }[theme]
    chosen = (
        f":root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}:root[data-theme=system]{{{light}}}"
        f"@media (prefers-color-scheme: dark){{:root[data-theme=system]{{{dark}}}}}"
    )
    return f"<style>{first}{chosen}{_sheet('style.css')}</style>"


@cache
def _sheet(name: str) -> str:
    return files("rmqspark.admin.console").joinpath(name).read_text(encoding="utf-8")
