"""Pages that are one file: data that no text in it can end, and a policy that allows no other script or style."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import jinja2

from wse.reports.as_json import as_json


def inline_page(template: str, *, script: str, style: str, data: dict[str, Any], **texts: Any) -> bytes:
    """A page of a jinja template, UTF-8; texts are escaped, and nothing runs or loads but ``script`` and ``style``.

    The template has ``script``, ``style`` and ``data`` as they are and ``script_digest`` and ``style_digest`` for its
    content security policy, besides ``texts``.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(template).render(
        script=script,
        script_digest=_digest(script),
        style=style,
        style_digest=_digest(style),
        data=_embed(data),
        **texts,
    )
    return page.encode(errors="replace")


def _embed(data: dict[str, Any]) -> str:
    """JSON that no text in it can end: within a script element only ``<`` can."""
    return as_json(data).replace("<", "\\u003c")


def _digest(text: str) -> str:
    """The digest by which a content security policy allows an inline element (W3C CSP level 3, section 2.3.1)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
