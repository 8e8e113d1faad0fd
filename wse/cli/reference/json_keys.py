"""Generator of docs/reference/json.md: the JSON keys of each command, from its result class."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

from wse.cli.reference import GENERATED, first_line
from wse.reports.result import Doc, Result
from wse.reports.table import markdown_table
from wse.studies.bundled_result import GpuResult, GpusResult, MachineResult, MappingsResult, ModelsResult, WafersResult
from wse.studies.cache_result import CacheResult
from wse.studies.claims.result import ClaimsResult
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.plan.result import PlanResult
from wse.studies.compare.result import CompareResult
from wse.studies.compare.traces import TracesComparison
from wse.studies.compile.result import CompileResult
from wse.studies.estimate.gpus.result import GpuEstimateResult
from wse.studies.estimate.result import EstimateResult
from wse.studies.explore.study import ExploreResult
from wse.studies.options.option import union_parts
from wse.studies.pattern.result import PatternResult
from wse.studies.run.result import RunResult
from wse.studies.scenario.result import ScenarioResult, ScenariosResult
from wse.studies.serve_sim.result import ServeResult
from wse.studies.sweep.result import SweepResult
from wse.studies.validate.agreement.result import Agreement
from wse.studies.validate.gpu_calibration import LeaveOut
from wse.studies.validate.result import Validation
from wse.studies.what_if.result import WhatIfResult
from wse.tracing.export.files import ExportResult
from wse.tracing.page.page import ViewResult
from wse.tracing.query.costs.groups import GroupsView
from wse.tracing.query.costs.steps import StepsView
from wse.tracing.query.costs.tree import TreeView
from wse.tracing.query.places.contents import DumpView
from wse.tracing.query.places.links import LinksView
from wse.tracing.query.places.pe import PeView
from wse.tracing.query.places.wavelets import CyclesView
from wse.tracing.query.summary import SummaryView
from wse.tracing.query.tokens import TensorsView, TokensView
from wse.tracing.query.two_traces.diff import DiffView
from wse.tracing.query.view import CheckView, View

COMMANDS: Final[dict[str, type[Result]]] = {
    "run": RunResult,
    "compile": CompileResult,
    "estimate": EstimateResult,
    "estimate --gpu": GpuEstimateResult,
    "estimate --what-if": WhatIfResult,
    "compare": CompareResult,
    "compare --gpu": CurveResult,
    "compare --users": PlanResult,
    "compare TRACE TRACE": TracesComparison,
    "serve-sim": ServeResult,
    "claims": ClaimsResult,
    "pattern": PatternResult,
    "scenario NAME": ScenarioResult,
    "sweep": SweepResult,
    "explore": ExploreResult,
    "validate": Validation,
    "validate --against wavelet": Agreement,
}
"""Result class of each command that has a Python function: printed with ``--json``, or returned."""

WITHOUT_FUNCTION: Final[dict[str, type[Result]]] = {
    "models": ModelsResult,
    "wafers": WafersResult,
    "wafers NAME": MachineResult,
    "gpus": GpusResult,
    "gpus NAME": GpuResult,
    "mappings": MappingsResult,
    "cache": CacheResult,
    "scenario": ScenariosResult,
    "validate --leave-out": LeaveOut,
    "view": ViewResult,
    "export": ExportResult,
}
"""Result class of each command that has no Python function, printed with ``--json``."""

VIEWS: Final[dict[str, type[View]]] = {
    "inspect": SummaryView,
    "inspect --steps": StepsView,
    "inspect --by": GroupsView,
    "inspect --tree": TreeView,
    "inspect --links": LinksView,
    "inspect --pe": PeView,
    "inspect --pe --dump": DumpView,
    "inspect --tokens": TokensView,
    "inspect --tensors": TensorsView,
    "inspect --cycles": CyclesView,
    "inspect --diff": DiffView,
    "inspect --check": CheckView,
}
"""Result class of each view of a trace."""

_HEAD: Final = f"""\
# JSON output

{GENERATED}

This page lists the keys that each command prints with `--json`. They are also the fields of the
results of [Python functions](python.md): the key `serving.tokens_per_s_per_user` is
`wse.estimate("llama-3-8b").serving.tokens_per_s_per_user`.

- `a.b` is the key `b` of the object `a`, and `a[].b` is the key `b` of each element of the list `a`.
- `NAME` is a placeholder for keys such as the names of machines, which differ between requests.
- Keys in *italics* are absent if they do not apply.
- Infinite and undefined numbers are `null`.
- Later versions may add keys. The [changelog](../../CHANGELOG.md) lists keys that are renamed or
  removed.
"""


class Key(NamedTuple):
    """A key in the JSON output of a command.

    Attributes:
        path: Path of the key, such as ``system.stages[].rows``.
        kinds: JSON value types that the key can have: int, float, str, bool, list, dict or None.
        doc: Description and unit.
        optional: Whether the key may be absent.
    """

    path: str
    kinds: tuple[type, ...]
    doc: Doc
    optional: bool


def keys_of(result: type[Result], prefix: str = "") -> Iterator[Key]:
    """Yield the JSON keys of a result class, in output order.

    Keys of nested objects follow the key of the object that contains them.

    Args:
        result: Result class.
        prefix: Path of the object that contains the result, with a final dot, or "".
    """
    hints = get_type_hints(result, include_extras=True)
    for field in dataclasses.fields(result):
        hint, doc = get_args(hints[field.name])[:2] if get_origin(hints[field.name]) is Annotated else (Any, Doc(""))
        types = [part for part in union_parts(hint) if part is not NoneType]
        path = prefix + field.name.removesuffix("_")
        optional = len(types) < len(union_parts(hint)) and not doc.or_null
        kinds = (*types, NoneType) if doc.or_null else types
        yield Key(path, tuple(dict.fromkeys(_kind(part) for part in kinds)), doc, optional)
        for part in types:
            yield from _inner_keys(part, path, doc)


def _inner_keys(hint: Any, path: str, doc: Doc) -> Iterator[Key]:
    """Yield the JSON keys inside a value, which may be an object or a list of objects.

    Args:
        hint: Type of the value.
        path: Path of the value.
        doc: Description of the value. Its unit also applies to the values of a mapping.
    """
    if isinstance(hint, type) and issubclass(hint, Result):
        yield from keys_of(hint, f"{path}.")
    elif get_origin(hint) in (tuple, list, Sequence) and get_args(hint):
        yield from _inner_keys(get_args(hint)[0], f"{path}[]", doc)
    elif isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Mapping):
        name, value = get_args(hint)
        for key in get_args(name) if get_origin(name) is Literal else ("NAME",):
            kinds = tuple(dict.fromkeys(_kind(part) for part in union_parts(value)))
            yield Key(f"{path}.{key}", kinds, Doc("", doc.unit), optional=False)
            yield from _inner_keys(value, f"{path}.{key}", doc)


def _kind(hint: Any) -> type:
    """Return the JSON type to which values of a Python type are converted."""
    origin = get_origin(hint)
    if origin is Literal:
        return type(get_args(hint)[0])
    if origin in (tuple, list, Sequence):
        return list
    kind = origin or hint
    if not isinstance(kind, type) or issubclass(kind, Mapping | Result):
        return dict
    return kind


def page() -> str:
    """Return the content of docs/reference/json.md, the reference page of JSON keys."""
    lines = [_HEAD]
    for command, result in (COMMANDS | WITHOUT_FUNCTION | VIEWS).items():
        lines += [f"## wse {command}", "", first_line(result), ""]
        lines += [*markdown_table(("key", "kind", "unit", "meaning"), map(_row, keys_of(result))), ""]
    return "\n".join(lines)


def _row(key: Key) -> tuple[str, ...]:
    """Return the table row of a JSON key: its path, type, unit and description."""
    path = f"*`{key.path}`*" if key.optional else f"`{key.path}`"
    return path, " or ".join(_WORDS[kind] for kind in key.kinds), key.doc.unit, _sentence(key.doc.text)


def _sentence(text: str) -> str:
    """Return a sentence with a capital first letter and without a final full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}"


_WORDS: Final = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    list: "list",
    dict: "object",
    NoneType: "null",
    Any: "any value",
}
