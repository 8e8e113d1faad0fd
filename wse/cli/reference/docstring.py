"""Extract parts of docstrings; defines the comment that marks a page as generated."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

GENERATED: Final = "<!-- Written by `python -m wse.cli.reference .`. Do not edit. -->"


def first_line(described: Any) -> str:
    """Return the first line of an object's docstring, or "" if it has none."""
    return (inspect.getdoc(described) or "").partition("\n")[0]


def argument_docs(docstring: str, section_name: str = "Args") -> dict[str, tuple[str, str]]:
    """Return the entries of one section of a Google-style docstring.

    Args:
        docstring: The docstring.
        section_name: Name of the section: "Args" or "Attributes".

    Returns:
        A pair for each argument or attribute, keyed by its name. The first text is the form of its
        values, such as ``ROWSxCOLS``, or "" if none is given. The second text is its description,
        on one line.
    """
    pattern = rf"^{section_name}:\n(.*?)(?=^\S|\Z)"
    section = re.search(pattern, inspect.cleandoc(docstring), re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^ {4}(\S.*?)(?=^ {4}\S|\Z)", section[1] if section else "", re.MULTILINE | re.DOTALL)
    docs = {}
    for entry in entries:
        argument, _, meaning = " ".join(entry.split()).partition(": ")
        name, _, form = argument.partition(" ")
        docs[name] = form.strip("()"), meaning
    return docs
