"""Generator of the pages in docs/reference, from options, results and signatures.

This module extracts parts of docstrings, and defines the comment that marks a page as generated.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from wse.studies.options.option import section_docs

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
    docs = {}
    for argument, meaning in section_docs(docstring, section_name).items():
        name, _, form = argument.partition(" ")
        docs[name] = form.strip("()"), meaning
    return docs
