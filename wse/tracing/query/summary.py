"""The summary of a trace: the run that it records, and the most important rows of other views.

Attributes of the run are its model, wafer, mapping, options, tokens and speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from wse.arrays import I64
from wse.reports.result import Doc, Result
from wse.tracing.expert_load import ExpertLoad, ExpertLoadResult
from wse.tracing.query.costs.step_sums import PassTotals, StepSums
from wse.tracing.query.costs.steps import Step, read_steps
from wse.tracing.query.costs.tree import LayerOps, read_tree
from wse.tracing.query.places.links import Link, busiest_links
from wse.tracing.query.places.stages import Stage, read_stages
from wse.tracing.query.places.wavelets import Wavelets, read_wavelets
from wse.tracing.query.view import View, source_of
from wse_traces.reader.groups import group_sums
from wse_traces.reader.read import Columns, Trace
from wse_traces.schema import PHASES, USES


class TracedModel(Result):
    """Model that was executed in a traced run."""

    name: Annotated[str, Doc("name of the model")]


class TracedWafer(Result):
    """Type of wafer that a traced run used: its name, its mesh of PEs and its clock.

    All wafers of a run are of the same type.
    """

    name: Annotated[str, Doc("name of the wafer")]
    rows: Annotated[int, Doc("rows of PEs")]
    cols: Annotated[int, Doc("columns of PEs")]
    clock_hz: Annotated[float, Doc("clock", "Hz")]


class TracedSystem(Result):
    """Placement of the model of a traced run on wafers: the name of the mapping, and the stages.

    A stage is a part of the model, stored on one region of PEs.
    """

    wafers: Annotated[int, Doc("number of wafers")]
    mapping: Annotated[str, Doc("name of the mapping")]
    stages: Annotated[tuple[Stage, ...], Doc("the stages")]


class TracedUser(Result):
    """Token counts and text of one user (one sequence of the batch)."""

    prompt_tokens: Annotated[int, Doc("tokens of the prompt that were read")]
    generated_tokens: Annotated[int, Doc("tokens that were generated")]
    text: Annotated[str, Doc("text of all tokens")]


class TracedEmulation(Result):
    """Cost of the emulation itself: how long the emulator took on the computer it ran on."""

    wall_s: Annotated[float, Doc("time that the emulator needed for all passes", "s")]


class TracedSram(Result):
    """SRAM of the fullest PE of each stage: number of bytes for each use, such as "weights"."""

    stages: Annotated[tuple[Mapping[str, int], ...], Doc("for each stage, bytes of each use on its fullest PE", "B")]

    @property
    def fullest_pe_bytes(self) -> Mapping[str, int]:
        """Number of bytes for each use of SRAM on the fullest PE of all wafers.

        The keys are the names of the uses, including ``free``. Empty if SRAM was not recorded.
        """
        return min(self.stages, key=lambda stage: stage["free"], default={})


class TracedRun(Result):
    """Description of a run, read from its trace: what was run, where, and how fast.

    ``prefill``, ``decode`` and ``verify`` are the totals of these phases, or None if a phase did
    not run.
    """

    created_by: Annotated[str, Doc("program and version that wrote the trace")]
    versions: Annotated[Mapping[str, Any], Doc("versions of the software that wrote it")]
    seed: Annotated[int, Doc("seed of random weights and of sampling")]
    program_digest: Annotated[str, Doc("hexadecimal digest of the compiled Program")]
    model: Annotated[TracedModel, Doc("the model")]
    wafer: Annotated[TracedWafer, Doc("one of the wafers")]
    system: Annotated[TracedSystem, Doc("how the model is distributed over wafers")]
    options: Annotated[Mapping[str, Any], Doc("options of the run")]
    prompt_tokens: Annotated[int, Doc("tokens of all prompts")]
    generated_tokens: Annotated[int, Doc("tokens that were generated for all users")]
    text: Annotated[str | None, Doc("text of prompt and answer, if there is one user")] = None
    users: Annotated[tuple[TracedUser, ...], Doc("tokens of each user")]
    emulation: Annotated[TracedEmulation, Doc("cost of the emulation itself")]
    prefill: Annotated[PassTotals | None, Doc("totals of the prompt chunks")] = None
    decode: Annotated[PassTotals | None, Doc("totals of the decoded tokens")] = None
    verify: Annotated[PassTotals | None, Doc("totals of the verification passes")] = None
    sram: Annotated[TracedSram, Doc("SRAM in use")]

    @property
    def phases(self) -> dict[str, PassTotals]:
        """Totals of each phase that ran, keyed by "prefill", "decode" or "verify"."""
        totals = {phase: getattr(self, phase) for phase in PHASES}
        return {phase: total for phase, total in totals.items() if total is not None}


def read_run(trace: Trace, phases: Mapping[str, PassTotals]) -> TracedRun:
    """Return the description of the run that a trace records.

    Args:
        trace: Trace of a run or estimate.
        phases: Totals of each phase that ran. The totals of "decode" also receive the token rate.
    """
    header, users, decode = trace.header, _users(trace), phases.get("decode")
    if decode is not None:
        cycles = decode.cycles_per_pass
        decode = replace(decode, tokens_per_s=max(1, len(users)) * header.clock_hz / cycles if cycles else 0.0)
    stage_bytes = trace.column("sram/stage_bytes").tolist()
    return TracedRun.from_parts(
        header,
        model=TracedModel(name=header.model),
        wafer=TracedWafer.from_parts(header, name=header.wafer),
        system=TracedSystem(wafers=header.wafers, mapping=header.mapping, stages=tuple(read_stages(trace))),
        prompt_tokens=sum(user.prompt_tokens for user in users),
        generated_tokens=sum(user.generated_tokens for user in users),
        text=(users[0].text if users else "") if len(users) < 2 else None,
        users=users,
        emulation=TracedEmulation(wall_s=float(trace.column("passes/wall_s").sum())),
        prefill=phases.get("prefill"),
        decode=decode,
        verify=phases.get("verify"),
        sram=TracedSram(stages=tuple(dict(zip(USES, row, strict=True)) for row in stage_bytes)),
    )


def _users(trace: Trace) -> tuple[TracedUser, ...]:
    """Return the token counts and the text of each user of the batch."""
    is_prompt = trace.column("tokens/is_prompt") != 0
    sequences, user = np.unique(trace.column("tokens/sequence"), return_inverse=True)
    texts: list[list[bytes]] = [[] for _ in sequences]
    for index, text in zip(user.tolist(), trace.token_bytes(), strict=True):
        texts[index].append(text)
    prompt, total = (np.bincount(user, weights, len(texts)).astype(int).tolist() for weights in (is_prompt, None))
    return tuple(
        TracedUser(
            prompt_tokens=prompt[index],
            generated_tokens=total[index] - prompt[index],
            text=b"".join(parts).decode(errors="replace"),
        )
        for index, parts in enumerate(texts)
    )


def load_in(trace: Trace) -> ExpertLoad:
    """Read from a trace how many tokens were routed to each expert.

    The result is empty if the model has no experts.
    """
    load = ExpertLoad()
    rows = trace.table("routed")
    if not len(rows["expert"]):
        return load
    phase = trace.column("schedules/phase")[trace.column("passes/schedule")[rows["pass"]]]
    experts = int(max(rows["expert"].max(), trace.column("experts/expert").max(initial=0))) + 1
    for code, name in enumerate(PHASES):
        load.add(name, tokens_by_layer({key: column[phase == code] for key, column in rows.items()}, experts))
    return load


def tokens_by_layer(rows: Columns, experts: int) -> dict[int, I64]:
    """Return the number of tokens routed to each expert in each layer.

    Args:
        rows: Columns ``layer``, ``expert`` and ``tokens``. Multiple rows for the same expert are
            summed.
        experts: Number of experts in each layer.

    Returns:
        int64 ``[experts]`` for each layer index.
    """
    layers, group = np.unique(rows["layer"], return_inverse=True)
    sums = group_sums(rows["tokens"], group * experts + rows["expert"], len(layers) * experts)
    return dict(zip(layers.tolist(), sums.reshape(len(layers), experts), strict=True))


class CrossingBytes(Result):
    """Bytes sent between wafers, or between wafers and the host, over the run."""

    bytes: Annotated[int, Doc("bytes over the run", "B")]


class SummaryView(TracedRun, View):
    """Summary of a run: cycles broken down by cause, fullest PE, busiest links and costliest steps.

    This is what ``wse inspect TRACE`` shows if no other view is requested.
    """

    crossing: Annotated[CrossingBytes, Doc("bytes between wafers, and to and from the host")]
    links: Annotated[tuple[Link, ...], Doc("busiest links")]
    wavelets: Annotated[Wavelets | None, Doc("log of wavelets, if the run used `--wavelets`")] = None
    experts: Annotated[ExpertLoadResult | None, Doc("load of experts, if the model has any")] = None
    tree: Annotated[tuple[LayerOps, ...], Doc("layers with their ops")]
    steps: Annotated[tuple[Step, ...], Doc("costliest steps")]
    report: Annotated[Mapping[str, Any], Doc("report of the run")]


def read_summary(trace: Trace, top: int, *, each_layer: bool = False) -> SummaryView:
    """Return the summary of a trace.

    Args:
        trace: Trace of a run or estimate.
        top: Maximum number of links and maximum number of steps in the summary.
        each_layer: True to list every layer and every link. False to combine layers with equal
            costs, and links with equal words, into one row.

    Raises:
        TraceError: The trace is damaged.
    """
    sums = StepSums(trace)
    return read_run(trace, sums.phases()).convert(
        SummaryView,
        **source_of(trace, "summary"),
        crossing=CrossingBytes(bytes=int(trace.column("crossings/bytes").sum())),
        links=tuple(busiest_links(trace, top, each_link=each_layer)),
        wavelets=read_wavelets(trace, None),
        experts=load_in(trace).result(),
        tree=tuple(read_tree(sums)),
        steps=tuple(read_steps(sums, "cycles", top, each_layer=each_layer)),
        report=trace.report(),
    )
