"""Generator of traces/FORMAT.md: ``python -m wse_traces.format_page > traces/FORMAT.md``."""

from __future__ import annotations

import sys
from pathlib import Path
from string import Template

from wse_traces.field import Field
from wse_traces.header import ATTRIBUTES
from wse_traces.schema import AXIS_LABELS, CAUSES, FIELDS, FORMAT, ROWS, VERSION

_TEMPLATE = Path(__file__).with_name("format_page.md")
"""Template of the part of the page before the tables of datasets."""
_GENERATED = "<!-- Generated from schema.py and format_page.md by `python -m wse_traces.format_page`. Do not edit. -->"


def page() -> str:
    """Return the content of FORMAT.md, the page that describes the trace format."""
    axes = "; ".join(f"`{name}`: {', '.join(labels)}" for name, labels in AXIS_LABELS.items())
    values = {"generated": _GENERATED, "version": VERSION, "format": FORMAT, "causes": ",".join(CAUSES), "axes": axes}
    lines = [Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(values).rstrip("\n")]
    lines += [f"| `{a.path}` | `{a.name}` | {a.kind.__name__} | {a.doc} |" for a in ATTRIBUTES]
    group = ""
    for field in (ROWS, *FIELDS):
        top = field.path.split("/")[0]
        if top != group:
            group = top
            lines += [
                "",
                f"## {top}",
                "",
                "| dataset | dtype | axes | unit | meaning |",
                "|---|---|---|---|---|",
            ]
        lines.append(f"| `{field.path}` | `{field.dtype}` | {', '.join(field.axes)} | {field.unit} | {_doc(field)} |")
    return "\n".join(lines) + "\n"


def _doc(field: Field) -> str:
    """Return the description of a field, with the names of its codes and the table it refers to."""
    doc = field.doc
    if field.labels and field is not ROWS:
        doc += "; " + ", ".join(f"{i}: {label}" for i, label in enumerate(field.labels))
    return doc + (f"; row of `{field.refers}`" if field.refers else "")


if __name__ == "__main__":
    sys.stdout.write(page())
