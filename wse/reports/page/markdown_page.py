"""Markdown pages of results, such as ``docs/validation.md``, from templates."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import jinja2


def markdown_page(package: str, **values: Any) -> str:
    """Return the text of a Markdown page.

    Args:
        package: Name of the package that contains the template of the page, ``page.md.j2``.
        **values: Template variables.
    """
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string((files(package) / "page.md.j2").read_text(encoding="utf-8")).render(**values)
