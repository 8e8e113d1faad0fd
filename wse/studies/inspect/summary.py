"""What is in a trace, as plain values, also of a run that goes on or was stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wse.errors import BadInput
from wse.studies.expert_load import load_in
from wse.studies.facts import Report
from wse.studies.inspect.opened import named, opened
from wse.studies.inspect.wavelets import cycle_range, wavelet_facts
from wse_traces.read import Columns, Trace
from wse_traces.schema import CAUSES, DIRECTIONS, KINDS, PHASES, USES

EVERY = 1 << 62
LINKS = 5


def inspect_trace(path: Path, *, top: int = 10, cycles: str | None = None) -> Report:
    """The summary, the ops of each layer, the ``top`` costliest steps, the busiest links and the log of wavelets.

    Args:
        path: The trace.
        top: How many of the costliest steps.
        cycles: ``FROM-TO``: also the moves of these cycles of the logged pass.

    Raises:
        BadInput: a ``top`` or ``cycles`` that cannot be.
        BadTrace: there is no such file, or it is no trace, or damaged, or has no log of which ``cycles`` could be.
    """
    if top < 0:
        message = f"--top {top}: give a number of at least 0"
        raise BadInput(message)
    replayed = None if cycles is None else cycle_range(cycles)
    with opened(path) as trace:
        return _facts(trace, top, replayed)


def _facts(trace: Trace, top: int, replayed: tuple[int, int] | None) -> Report:
    header = trace.header
    places = trace.top_steps(n=EVERY)
    names, ops = trace.texts("strings/names"), trace.texts("graph/ops/name")
    facts: Report = {
        "trace": str(trace.path),
        "complete": trace.complete,
        "created_by": header.created_by,
        "seed": header.seed,
        "program_digest": header.program_digest,
        "model": {"name": header.model},
        "wafer": {"name": header.wafer, "rows": header.rows, "cols": header.cols, "clock_hz": header.clock_hz},
        "system": {"wafers": header.wafers, "mapping": header.mapping, "stages": _stages(trace)},
        "options": dict(header.options),
        **_tokens(trace),
    }
    passes = _passes(trace)
    for code, phase in enumerate(PHASES):
        if passes[code]:
            facts[phase] = _phase(trace, places, code, passes[code])
    if "decode" in facts:
        cycles = facts["decode"]["cycles_per_pass"]
        users = max(1, len(facts["users"]))
        facts["decode"]["tokens_per_s"] = users * header.clock_hz / cycles if cycles else 0.0
    facts["sram"] = {"stages": [dict(zip(USES, row, strict=True)) for row in trace.column("sram/stage_bytes").tolist()]}
    facts["crossing"] = {"bytes": int(trace.column("crossings/bytes").sum())}
    facts["links"] = _busiest_links(trace)
    facts["layer_links"] = _layer_links(trace)
    facts |= wavelet_facts(trace, replayed)
    facts |= load_in(trace).facts()
    facts["tree"] = _tree(trace, places, passes)
    facts["steps"] = [_step(places, row, ops, names) for row in range(min(top, len(places["cycles"])))]
    facts["report"] = trace.report()
    return facts


def _stages(trace: Trace) -> list[dict[str, int]]:
    columns = trace.table("stage")
    wanted = ("wafer", "row", "col", "rows", "cols", "first_layer", "last_layer")
    return [{name: int(columns[name][i]) for name in wanted} for i in range(trace.rows("stage"))]


def _tokens(trace: Trace) -> Report:
    is_prompt = trace.column("tokens/is_prompt") != 0
    sequences, user = np.unique(trace.column("tokens/sequence"), return_inverse=True)
    texts: list[list[bytes]] = [[] for _ in sequences]
    for of, text in zip(user.tolist(), trace.token_bytes(), strict=True):
        texts[of].append(text)
    read, every = (np.bincount(user, weights, len(texts)).astype(int) for weights in (is_prompt, None))
    users = [
        {
            "prompt_tokens": int(read[of]),
            "generated_tokens": int(every[of] - read[of]),
            "text": b"".join(parts).decode(errors="replace"),
        }
        for of, parts in enumerate(texts)
    ]
    return {
        "prompt_tokens": int(is_prompt.sum()),
        "generated_tokens": int((~is_prompt).sum()),
        **({"text": users[0]["text"] if users else ""} if len(users) < 2 else {}),
        "users": users,
        "emulation": {"wall_s": float(trace.column("passes/wall_s").sum())},
    }


def _passes(trace: Trace) -> list[int]:
    """How many passes each phase had."""
    phase = trace.column("schedules/phase")
    schedule = trace.column("passes/schedule")
    known = schedule[(schedule >= 0) & (schedule < len(phase))]
    return [int(n) for n in np.bincount(phase[known], minlength=len(PHASES))[: len(PHASES)]]


def _phase(trace: Trace, places: Columns, code: int, passes: int) -> Report:
    """Cycles of a phase by cause, in all and of a mean pass."""
    mine = places["phase"] == code
    by = {cause: float(places[f"{cause}_cycles"][mine].sum()) / passes for cause in CAUSES}
    return {
        "passes": passes,
        "cycles": int(places["cycles"][mine].sum()),
        "cycles_per_pass": sum(by.values()),
        "cycles_by": by,
        "wavelet_hops_per_pass": _hops(trace, code) / passes,
    }


def _hops(trace: Trace, code: int) -> int:
    """Links that the wavelets of a phase crossed, over the run."""
    schedules, hops = trace.table("schedule"), trace.column("steps/hops")
    executed = trace.column("passes/schedule").tolist()
    total = 0
    for index in np.flatnonzero(schedules["phase"] == code).tolist():
        first = int(schedules["first_step"][index])
        total += executed.count(index) * int(hops[first : first + int(schedules["steps"][index])].sum())
    return total


def _busiest_links(trace: Trace) -> list[Report]:
    """The links with the most words over the run; none while it goes on."""
    found: list[Report] = []
    for wafer in range(trace.rows("links/words")):
        words = trace.column("links/words", wafer, wafer + 1)[0]
        flat = words.ravel()
        for at in np.argpartition(-flat, min(LINKS, flat.size - 1))[:LINKS]:
            direction, row, col = (int(i) for i in np.unravel_index(at, words.shape))
            link = {"wafer": wafer, "row": row, "col": col, "direction": DIRECTIONS[direction], "words": int(flat[at])}
            found.append(link)
    found.sort(key=lambda link: -int(link["words"]))
    return [link for link in found[:LINKS] if link["words"]]


def _layer_links(trace: Trace) -> list[Report]:
    """For each layer and wafer its words on links: those on its busiest link, and hops; most words first."""
    places = trace.table("placed_layer")
    sums: dict[int, tuple[int, int]] = {}
    for pattern in np.unique(places["pattern"]).tolist():
        words = trace.column("links/patterns/words", pattern, pattern + 1) if pattern >= 0 else np.zeros(0, np.int64)
        sums[pattern] = int(words.max(initial=0)), int(words.sum())
    found: list[Report] = []
    for layer, wafer, pattern in zip(*(places[name].tolist() for name in ("layer", "wafer", "pattern")), strict=True):
        most, hops = sums[pattern]
        found.append({"layer": layer, "wafer": wafer, "busiest_link_words": most, "wavelet_hops": hops})
    return sorted(found, key=lambda each: -int(each["busiest_link_words"]))


def _tree(trace: Trace, places: Columns, passes: list[int]) -> list[Report]:
    """The ops in graph order, with the cycles of a mean pass of each phase, under the layers that they belong to."""
    names, kinds = trace.texts("graph/ops/name"), trace.texts("graph/ops/kind")
    layers = trace.column("graph/ops/layer").tolist()
    cycles = np.zeros((len(PHASES), len(names)))
    known = (places["op"] >= 0) & (places["op"] < len(names)) & (places["phase"] < len(PHASES))
    np.add.at(cycles, (places["phase"][known], places["op"][known]), places["cycles"][known])
    cycles /= np.maximum(np.array(passes)[:, np.newaxis], 1)
    tree: list[Report] = []
    for op, (name, kind, layer) in enumerate(zip(names, kinds, layers, strict=True)):
        if not tree or tree[-1]["layer"] != layer:
            tree.append({"layer": layer, "ops": []})
        tree[-1]["ops"].append({"op": name, "kind": kind, **{p: float(cycles[i, op]) for i, p in enumerate(PHASES)}})
    for node in tree:
        node |= {phase: sum(op[phase] for op in node["ops"]) for phase in PHASES}
    return tree


def _step(places: Columns, row: int, ops: list[str], names: list[str]) -> Report:
    """One of the costliest steps."""
    value = {name: int(column[row]) for name, column in places.items()}
    return {
        "phase": named(PHASES, value["phase"]),
        "op": named(ops, value["op"]),
        "name": named(names, value["name"]),
        "kind": named(KINDS, value["kind"]),
        **{name: value[name] for name in ("layer", "stage", "wafer", "times", "cycles", "words", "hops")},
        "cycles_by": {cause: value[f"{cause}_cycles"] for cause in CAUSES},
    }
