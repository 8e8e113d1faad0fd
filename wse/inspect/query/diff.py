"""``--diff``: two traces side by side, op by op, and what was set differently."""

from __future__ import annotations

from typing import Any, Final

from wse.inspect.query.header import header_facts, token_facts
from wse.inspect.query.opened import Facts
from wse.inspect.query.totals import changes, differing, totals_of
from wse_traces.read import Trace
from wse_traces.schema import PHASES

GROUPS: Final = {"kind of op": "kind", "layer": "layer", "op": "name"}


def diff_facts(first: Trace, second: Trace) -> Facts:
    """What differs between two traces.

    ``settings`` lists what the runs were given: model, wafer, mapping, options, software, versions, numbers of tokens.
    ``changes`` has for each phase that both ran what took more or less, as ``changes`` says, of all prompts and of a
    mean decoded token; ``sram`` the bytes by use on the fullest PE. ``only`` names the ops that one of them lacks.

    Raises:
        TraceError: one of the traces is damaged.
    """
    headers = [header_facts(trace) for trace in (first, second)]
    totals = [totals_of(trace) for trace in (first, second)]
    settings = [_settings(header, token_facts(trace)) for header, trace in zip(headers, (first, second), strict=True)]
    for side, total in zip(settings, totals, strict=True):
        side |= {f"{phase} passes": total.phases[phase]["passes"] if phase in total.phases else 0 for phase in PHASES}
    names = [{name for name, *_ in total.ops[PHASES[0]]} for total in totals]
    sram = [[("sram", use, "B", float(size)) for use, size in total.sram_bytes.items()] for total in totals]
    return {
        "traces": [str(trace.path) for trace in (first, second)],
        "same_program": headers[0]["program_digest"] == headers[1]["program_digest"],
        "settings": _different(*settings),
        "changes": {
            phase: changes(totals[0], totals[1], phase, GROUPS)
            for phase in PHASES
            if all(phase in total.phases for total in totals)
        },
        "sram": differing(sram),
        "only": {"first": sorted(names[0] - names[1]), "second": sorted(names[1] - names[0])},
    }


def _settings(header: Facts, tokens: Facts) -> dict[str, Any]:
    wafer, system = header["wafer"], header["system"]
    given = {
        "model": header["model"]["name"],
        "wafer": wafer["name"],
        "wafers": system["wafers"],
        "mesh": f"{wafer['rows']}x{wafer['cols']}",
        "clock_hz": wafer["clock_hz"],
        "mapping": system["mapping"],
        "regions": len(system["stages"]),
        "prompt tokens": tokens["prompt_tokens"],
        "generated tokens": tokens["generated_tokens"],
        "users": len(tokens["users"]),
        "seed": header["seed"],
        "complete": header["complete"],
    }
    options = {f"option {name}": value for name, value in header["options"].items() if name not in given}
    return {**given, **options, **{f"version of {name}": value for name, value in header["versions"].items()}}


def _different(first: dict[str, Any], second: dict[str, Any]) -> list[Facts]:
    """What both do not have alike; a side that has no such setting is left out."""
    sides = {"first": first, "second": second}
    return [
        {"name": name, **{side: given[name] for side, given in sides.items() if name in given}}
        for name in dict.fromkeys([*first, *second])
        if name not in first or name not in second or first[name] != second[name]
    ]
