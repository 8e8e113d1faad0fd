"""The run that a trace records: model, wafer, mapping, options, tokens and speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from wse.reports.result import Doc, Result
from wse.tracing.query.costs.step_sums import PassTotals
from wse.tracing.query.places.stages import Stage, read_stages
from wse_traces.reader.read import Trace
from wse_traces.schema import PHASES, USES


@dataclass(frozen=True, kw_only=True)
class TracedModel(Result):
    """Model that was executed in a traced run."""

    name: Annotated[str, Doc("name of the model")]


@dataclass(frozen=True, kw_only=True)
class TracedWafer(Result):
    """Type of wafer that a traced run used: its name, its mesh of PEs and its clock.

    All wafers of a run are of the same type.
    """

    name: Annotated[str, Doc("name of the wafer")]
    rows: Annotated[int, Doc("rows of PEs")]
    cols: Annotated[int, Doc("columns of PEs")]
    clock_hz: Annotated[float, Doc("clock", "Hz")]


@dataclass(frozen=True, kw_only=True)
class TracedSystem(Result):
    """How a traced run distributes the model over wafers: the name of the mapping, and the stages.

    A stage is a rectangle of PEs that stores some layers.
    """

    wafers: Annotated[int, Doc("number of wafers")]
    mapping: Annotated[str, Doc("name of the mapping")]
    stages: Annotated[tuple[Stage, ...], Doc("the stages")]


@dataclass(frozen=True, kw_only=True)
class TracedUser(Result):
    """Token counts and text of one user (one sequence of the batch)."""

    prompt_tokens: Annotated[int, Doc("tokens of the prompt that were read")]
    generated_tokens: Annotated[int, Doc("tokens that were generated")]
    text: Annotated[str, Doc("text of all tokens")]


@dataclass(frozen=True, kw_only=True)
class TracedEmulation(Result):
    """Cost of the emulation itself: how long the emulator took on the computer it ran on."""

    wall_s: Annotated[float, Doc("time that the emulator needed for all passes", "s")]


@dataclass(frozen=True, kw_only=True)
class TracedSram(Result):
    """SRAM of the fullest PE of each stage: number of bytes for each use, such as "weights"."""

    stages: Annotated[tuple[Mapping[str, int], ...], Doc("for each stage, bytes of each use on its fullest PE", "B")]

    @property
    def fullest_pe_bytes(self) -> Mapping[str, int]:
        """Number of bytes for each use of SRAM on the fullest PE of all wafers.

        The keys are the names of the uses, including ``free``. Empty if SRAM was not recorded.
        """
        return min(self.stages, key=lambda stage: stage["free"], default={})


@dataclass(frozen=True, kw_only=True)
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
    return TracedRun(
        created_by=header.created_by,
        versions=dict(header.versions),
        seed=header.seed,
        program_digest=header.program_digest,
        model=TracedModel(name=header.model),
        wafer=TracedWafer(name=header.wafer, rows=header.rows, cols=header.cols, clock_hz=header.clock_hz),
        system=TracedSystem(wafers=header.wafers, mapping=header.mapping, stages=tuple(read_stages(trace))),
        options=dict(header.options),
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
