"""Single-file pages that are safe for data from untrusted traces.

No text in the data can end the element that contains it, and the content security policy allows
only the page's own scripts and styles.

A page belongs to a package with three kinds of files: ``page.html.j2``, which fills the blocks of
``base.html.j2``; ``style.css``, which adds to the style of all pages; and scripts. All pages share
a theme switch, tips, tables and charts (``SCRIPTS``).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

import jinja2

from wse.reports.colours import style_variables
from wse.reports.result import as_json

SHARED: Final = "wse.reports.page"
SCRIPTS: Final = ("format.js", "elements.js", "tips.js", "theme.js", "tables.js", "charts.js")
"""Scripts of all pages, in order. They are concatenated, followed by the page's own scripts.

``elements.js`` defines ``DATA``, the data of the page.
"""


def inline_page(package: str, *, scripts: Sequence[str], data: dict[str, Any], **texts: Any) -> bytes:
    """Return an HTML page that contains its scripts, styles and data, encoded in UTF-8.

    Args:
        package: Name of the package that contains the files of the page.
        scripts: Scripts of the page, in order. Each script uses only the shared scripts and the
            preceding ones.
        data: Data that the scripts draw.
        **texts: Template variables, which are escaped. ``title`` is required.
    """
    script = "\n".join([*(_text(SHARED, name) for name in SCRIPTS), *(_text(package, name) for name in scripts)])
    style = style_variables() + "\n".join(_text(folder, "style.css") for folder in (SHARED, package))
    loader = jinja2.DictLoader({"base.html.j2": _text(SHARED, "base.html.j2")})
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, loader=loader)
    page = environment.from_string(_text(package, "page.html.j2")).render(
        script=script,
        script_digest=_digest(script),
        style=style,
        style_digest=_digest(style),
        data=_embed(data),
        **texts,
    )
    return page.encode(errors="replace")


def _text(package: str, name: str) -> str:
    """Return the content of a text file in a package."""
    return (files(package) / name).read_text(encoding="utf-8")


def _embed(data: dict[str, Any]) -> str:
    """Return data as JSON that cannot end a script element, because every ``<`` is escaped."""
    return as_json(data).replace("<", "\\u003c")


def _digest(text: str) -> str:
    """Return the hash by which a content security policy identifies an inline script or style.

    Source: W3C CSP level 3, section 2.3.1.
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
