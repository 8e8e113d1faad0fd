"""wse/__init__.pyi: the functions of `wse.api` with all their arguments, for type checkers and editors.

Most arguments are made of options of request classes when Python runs, where a type checker does not see them.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from inspect import Parameter, Signature
from typing import Any, Final

import wse
from wse import api

_HEAD: Final = """\
# Written by `python -m wse.cli.reference .`. Do not edit.
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
"""
_PROGRESS: Final = "from wse.reports.progress import OnProgress"


def stub() -> str:
    """The whole file."""
    functions = [value for name, value in vars(api).items() if name in dir(wse)]
    lines = [_HEAD, *sorted([_PROGRESS, *_imports_of_results()]), "", "__version__: str", "__all__ = ["]
    lines += [*(f"    {json.dumps(name)}," for name in wse.__all__), "]", ""]
    for function in functions:
        lines += _function(function.__name__, inspect.signature(function))
    return "\n".join(lines) + "\n"


def _imports_of_results() -> Iterator[str]:
    """The imports of classes that `wse.api` needs for its annotations alone."""
    for node in ast.parse(inspect.getsource(api)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from map(ast.unparse, node.body)


def _function(name: str, signature: Signature) -> Iterator[str]:
    yield f"def {name}("
    star = any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in signature.parameters.values())
    for parameter in signature.parameters.values():
        if parameter.kind is Parameter.KEYWORD_ONLY and not star:
            yield "    *,"
            star = True
        yield f"    {_parameter(parameter)},"
    yield f") -> {_type(signature.return_annotation)}: ..."


def _parameter(parameter: Parameter) -> str:
    star = "*" if parameter.kind is Parameter.VAR_POSITIONAL else ""
    default = "" if parameter.default is Parameter.empty else f" = {_literal(parameter.default)}"
    return f"{star}{parameter.name}: {_type(parameter.annotation)}{default}"


def _literal(default: Any) -> str:
    return json.dumps(default) if isinstance(default, str) else repr(default)


def _type(annotation: Any) -> str:
    """A type as it is written with the imports of the file; Python 3.13 has the class Path in ``pathlib._local``."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:collections\.abc|pathlib(?:\._local)?|typing)\.", "", text)
