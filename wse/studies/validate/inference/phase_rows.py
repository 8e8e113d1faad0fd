"""Predictor of the phases of a layer: steps of attention and feed-forward, their sums and parts."""

from __future__ import annotations

import re
from typing import Final

from wse.studies.validate.kernel_model.described_run import Shard
from wse.studies.validate.kernel_model.kernel_work import probe_cycles
from wse.studies.validate.kernel_model.layer_steps import ATTENTION, FEED_FORWARD
from wse.studies.validate.kernel_model.profile import duration, timed_run
from wse.studies.validate.kernel_model.step_time import StepTime
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.text_numbers import row_in, rows_of, whole_in
from wse.studies.validate.predictors.prediction import Declined, Prediction, decline_words, require

PHASES: Final = ("attention-phase", "ffn-phase")
_STEPS: Final = {step.name: step for step in (*ATTENTION, *FEED_FORWARD)}
_CONTEXT_STEPS: Final = frozenset({"score", "softmax", "pv"})
_REDUCE: Final = "all-reduce"

_COLLECTIVE: Final = re.compile(r"^(?:[XY] |row |column |band )?(?:all-?)?reduce$", re.IGNORECASE)
_CONDITION: Final = re.compile(
    r"^(?:bsz|batch|row)\b|^(?:at )?[0-9,.]+ ?(?:K|layers?|positions|tokens)\b|^baseline$|^push$|probes?$|^per layer$",
    re.IGNORECASE,
)
_LAYERS: Final = re.compile(r"\b([0-9]+) layers\b", re.IGNORECASE)
_PASS: Final = re.compile(r"\bpass:|\binside softmax\b", re.IGNORECASE)

Part = tuple[str, str]
"""Name of a step of a layer, and the purpose of some of its operations; "" for the whole step."""


def predict(m: Measurement) -> Prediction | None:
    """Predict how many cycles are spent in one or several steps of a layer.

    Returns:
        The prediction. None if something else was measured.

    Raises:
        Declined: The measurement cannot be predicted.
    """
    metric = m.text("metric")
    if m.text("phase") not in PHASES or _PASS.search(metric):
        return None
    decline_words("declined_phases_of_layers", m)
    added_parts, subtracted_parts = _parts_of_metric(metric)
    steps, run = timed_run(m)
    names = {name for name, _ in added_parts | subtracted_parts}
    if not run.states_context and not _CONTEXT_STEPS.isdisjoint(names):
        raise Declined("the row does not state the context")
    cycles = _cycles_of(added_parts, steps, run.shard) - _cycles_of(subtracted_parts, steps, run.shard)
    if cycles <= 0:
        raise Declined("the metric subtracts as much as it adds")
    count = 1 if "per layer" in f"{metric} {m.text('unit')}" else whole_in(_LAYERS, metric) or 1
    return duration(m, count * (cycles + probe_cycles(m)))


def _parts_of_metric(metric: str) -> tuple[frozenset[Part], frozenset[Part]]:
    """Return the steps of a layer whose times a metric adds, and the steps that it excludes.

    For example, "A2 without softmax" adds the steps from the scores to the residual, which the
    metrics call A2, and excludes the softmax.

    Raises:
        Declined: The metric cannot be parsed.
    """
    body = re.sub(r"\([^)]*\)", "", re.sub(r"^\s*phase( group)?:", "", metric, flags=re.IGNORECASE))
    body = re.sub(r"\bup and gate\b", "up/gate", re.sub(r"\bQ,\s*K,\s*V\b", "QKV", body), flags=re.IGNORECASE)
    added_text, _, subtracted_text = re.sub(r"\b(?:less|minus|without|except)\b", "\0", body, count=1).partition("\0")
    added_parts = _parts_of(added_text)
    added_steps = sorted({step for step, _ in added_parts})
    subtracted_parts = _parts_of(subtracted_text, last_step=added_steps[0] if len(added_steps) == 1 else "")
    if not added_parts:
        raise Declined("the metric names no step of a layer that is described")
    return added_parts, subtracted_parts


def _parts_of(text: str, last_step: str = "") -> frozenset[Part]:
    """Return the steps, or parts of steps, that a sum such as "score + softmax" names.

    Args:
        text: The sum. Text in parentheses has been removed.
        last_step: Step to which the term "all-reduce" refers if the sum begins with it. Later in
            the sum, this term refers to the step before it.

    Raises:
        Declined: A term of the sum is not a known step or part of a step.
    """
    parts: set[Part] = set()
    words = text.strip()
    for pattern, row in rows_of("step_groups"):
        match = pattern.search(words)
        if match:
            parts |= {(step, "") for step in row["steps"]}
            rest = words[match.end() :].strip()
            words = rest if rest.startswith("+") else ""
            break
    for term in re.split(r"\+|,|;|\band\b|\bwith\b", words):
        name = term.strip()
        group = row_in("step_groups", name)
        if group is not None:
            parts |= {(step, "") for step in group["steps"]}
        elif _COLLECTIVE.search(name) and last_step:
            parts.add((last_step, _REDUCE))
        elif name and not _CONDITION.search(name):
            reason = f"the metric names {name[:40]!r}, which is no step of a layer that is described"
            denoted = require(row_in("step_terms", name), reason)
            last_step = denoted["step"]
            parts |= {(last_step, purpose) for purpose in denoted["purposes"] or ("",)}
    return frozenset(parts)


def _cycles_of(parts: frozenset[Part], layer: StepTime, shard: Shard) -> float:
    """Return the total cycle count of some steps of a layer, or of parts of steps.

    Args:
        parts: Pairs (step, purpose). The purpose "" selects the whole step, and ``all-reduce``
            selects its all-reduces. Any other purpose, such as ``RoPE``, selects the operations of
            the step with this purpose. Parts of a step that is selected as a whole are not counted
            again.
        layer: Timing model of the steps.
        shard: Sizes of the tensors on a PE.
    """
    whole_steps = {step for step, purpose in parts if not purpose}
    cycles = layer.cycles([_STEPS[name] for name in sorted(whole_steps)], shard)
    for name, purpose in sorted(parts):
        if name in whole_steps:
            continue
        step = _STEPS[name]
        if purpose == _REDUCE:
            cycles += sum(layer.collective_cycles(collective, shard) for collective in step.collectives)
        operations = [operations for operations in step.operations if operations.purpose == purpose]
        cycles += sum(layer.operations_cycles(equal_operations, shard) for equal_operations in operations)
    return cycles
