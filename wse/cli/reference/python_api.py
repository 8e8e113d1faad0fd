"""Generator of docs/reference/python.md: functions with their arguments, results, and errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

import wse.errors
from wse import api
from wse.cli.reference import GENERATED, argument_docs, first_line
from wse.cli.reference.json_keys import COMMANDS
from wse.reports.result import Result
from wse.reports.table import markdown_table
from wse.studies.endpoint.server import Endpoint
from wse_traces.reader.column import Column
from wse_traces.reader.read import Trace

_HEAD: Final = f"""\
# Python

{GENERATED}

```python
import wse

result = wse.estimate("llama-3-8b", dtype="fp8")
print(result.system.wafers, result.serving.tokens_per_s_per_user)
```

Each function runs the command of the same name. Its arguments are options of the command, with
underscores and the same defaults: `--new-tokens` is `new_tokens`. An argument may also be a string,
as on the command line: `wafers="auto"`, `link_latency="500ns,5us"`.

Functions print nothing. Options that print or write a result are arguments only where the tables
below list them. Elsewhere, use the result: `result.to_dict()` for `--json`,
`result.tables(detail=True)` for `--detail`, `result.plot()` for a chart, and
`result.system.mapping_file()` for the text of the file that `--write-mapping` writes.

## Functions
"""
_RESULTS: Final = """\
## Results

Most functions return a frozen dataclass, whose fields are the [keys](json.md) that the command
prints with `--json`. A field that does not apply is `None`. `.tables()` returns the tables that
terminals and notebooks show.
"""
_TRACE: Final = """\
### Trace

`wse.open_trace` opens a trace. [Its format](../../traces/FORMAT.md) describes all tables and
columns, such as `tokens/cycles`.
"""
_ENDPOINT: Final = """\
### Endpoint

`wse.serve` returns an endpoint that answers requests until its method `close()` is called, or until
the end of a `with` block.
"""
_ERRORS: Final = """\
## Errors

Functions raise the errors of `wse.errors`. `str(error)` is one line that states what is wrong,
where, and how to correct it. An unknown or missing argument raises a `TypeError`, as everywhere in
Python.
"""


def page() -> str:
    """Return the content of docs/reference/python.md, the reference page of the Python API."""
    lines = [_HEAD]
    for name in api.__all__:
        lines += _function(name)
    lines += [_RESULTS]
    for command, result in COMMANDS.items():
        lines += _result(command, result)
    lines += [_TRACE, *_members(Trace), "", f"`trace[PATH]` is a column. {_paragraph(Column)}", ""]
    lines += [*_attributes(Column), "", _ENDPOINT, *_attributes(Endpoint), ""]
    return "\n".join([*lines, _ERRORS, "```text", _tree(), "```", ""])


def _function(name: str) -> Iterator[str]:
    """Yield the lines of a function's section: summary, example, arguments and return type."""
    function = getattr(api, name)
    docstring = inspect.getdoc(function) or ""
    signature = inspect.signature(function)
    example = re.search(r"^Example:\n(.*?)(?=^\S)", docstring, re.MULTILINE | re.DOTALL)
    code = inspect.cleandoc(f"\n{example[1]}") if example else ""
    yield from (f"### wse.{name}", "", first_line(function), "", "```python", code, "```", "")
    docs = argument_docs(inspect.getdoc(api.estimate) or "") | argument_docs(docstring)
    rows = [_argument(parameter, *docs[parameter.name]) for parameter in signature.parameters.values()]
    yield from markdown_table(("argument", "type", "default", "meaning"), rows)
    yield from ("", f"Returns `{_type(signature.return_annotation)}`.", "")


def _argument(parameter: inspect.Parameter, form: str, doc: str) -> tuple[str, ...]:
    """Return the table row of a function's argument: its name, type, default and description.

    Args:
        parameter: The argument.
        form: Format of its values if they are given as strings, such as ``ROWSxCOLS``, or "".
        doc: Description.
    """
    default = "" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
    star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
    values = f"`{form}`. " if form else ""
    return f"`{star}{parameter.name}`", f"`{_type(parameter.annotation)}`", default, f"{values}{doc}"


def _type(annotation: Any) -> str:
    """Format a type annotation without module names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)


def _result(command: str, result: type[Result]) -> Iterator[str]:
    """Yield the section of a command's result class: its fields, methods and properties."""
    letters = re.sub(r"[^\w -]", "", f"wse {command}".lower())
    fields_link = f"[Fields](json.md#{letters.replace(' ', '-')})"  # the anchor that GitHub derives from the heading
    yield from (f"### {result.__name__}", "", f"{first_line(result)} {fields_link}", "")
    members = list(_members(result, Result))
    yield from (*members, *([""] if members else []))


def _members(kind: type, base: type = object) -> Iterator[str]:
    """Yield a Markdown list item for each public method and property of a class.

    Fields of a dataclass and members of the base class are omitted.

    Args:
        kind: The class.
        base: Base class.
    """
    field_names = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    for name in dir(kind):
        if not name.startswith("_") and name not in field_names and not hasattr(base, name):
            yield f"- `{name}{_call(getattr(kind, name))}`: {first_line(getattr(kind, name))}"


def _attributes(kind: type) -> Iterator[str]:
    """Yield a Markdown list item for each attribute that the docstring of a class lists."""
    attributes = argument_docs(inspect.getdoc(kind) or "", "Attributes")
    yield from (f"- `{attribute}`: {doc}" for attribute, (_, doc) in attributes.items())


def _call(member: Any) -> str:
    """Return the parameters of a method in parentheses, or "" for a property."""
    if not callable(member):
        return ""
    parameters = list(inspect.signature(member).parameters.values())[1:]
    return f"({', '.join(str(p.replace(annotation=inspect.Parameter.empty)) for p in parameters)})"


def _paragraph(described: Any) -> str:
    """Return a docstring up to its first list of attributes or example, as one paragraph."""
    text = re.split(r"^(?:Attributes:|>>>)", inspect.getdoc(described) or "", maxsplit=1, flags=re.MULTILINE)[0]
    return " ".join(text.split())


def _tree() -> str:
    """Format the tree of error classes, from the docstring of ``wse.errors``."""
    return inspect.cleandoc((wse.errors.__doc__ or "").partition("\n\n")[2].partition("\n\nMessages")[0])
