"""``sram`` of an estimate: SRAM per PE by stage, code size, and concurrent users, with tables.

Only the KV caches of additional users are counted. How much SRAM a larger batch needs for
activations and buffers is known only when that batch is compiled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

from wse.hardware.load import load_software
from wse.hardware.number import Grade
from wse.models.tensors.model_tensors import kv_bytes_per_token, state_bytes
from wse.number_formats import ELEMENT_BYTES
from wse.reports.number_text import count, in_bytes, plural
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, more_rows, number
from wse.studies.estimate.layouts.room import RoomResult, room_table
from wse.studies.results.operating_points import ServingResult
from wse.studies.results.sram import (
    BytesByUse,
    SramResult,
    cache_capacity,
    cache_text,
    fullest_table,
    sram_result,
    use_bytes,
    users_at,
)

if TYPE_CHECKING:
    from wse.models.spec import ModelSpec
    from wse.program.program import Program
    from wse.studies.estimate.grades import Grades
    from wse.studies.estimate.layouts.choose_layout import ChosenLayout
    from wse.studies.estimate.prepare import PreparedEstimate

CONTEXTS: Final = (1024, 2048, 4096, 8192, 32_768)
"""Context lengths in tokens for which the number of users is reported."""
MAX_ROWS: Final = 16
"""Maximum number of stages to show."""
RESEARCH: Final = "academic"
"""Software profile whose code is as large as the released research kernels."""


class CodeResult(Result):
    """Code size per PE in bytes, compared with the code size of released research kernels."""

    bytes_per_pe: Annotated[int, Doc("code without stack and runtime", "B")]
    grade: Annotated[Grade, Doc("grade of that number")]
    research_bytes_per_pe: Annotated[int, Doc("code of released research kernels", "B")]


class UsersResult(Result):
    """Number of users whose KV caches fit for a certain context length per user."""

    context: Annotated[int, Doc("tokens of each user's KV cache")]
    users: Annotated[
        int, Doc("users whose KV caches fit, besides buffers for the longer of this context and `system.context`")
    ]


class SequenceResult(Result):
    """Memory that one sequence needs in a model with linear attention: its states and KV caches.

    The bytes are summed over all PEs, without padding.
    """

    state_bytes: Annotated[int, Doc("states of linear attention, which do not depend on the context", "B")]
    kv_bytes_per_token: Annotated[int, Doc("KV cache per token", "B")]
    kv_bytes: Annotated[int, Doc("KV cache of the requested context", "B")]


class EstimateSram(SramResult):
    """SRAM use of the fullest PE and of the PEs of each stage, and the number of users that fit."""

    stages: Annotated[tuple[BytesByUse, ...], Doc("for each stage, bytes of each use on one PE", "B")]
    code: Annotated[CodeResult, Doc("code on a PE")]
    users: Annotated[
        tuple[UsersResult, ...],
        Doc("users whose caches fit, for several contexts; above the requested one only in `wse estimate`"),
    ]
    block_tokens: Annotated[
        int, Doc("tokens of a block of the requested KV caches on the stage that fills first; caches occupy blocks")
    ]
    sequence: Annotated[
        SequenceResult | None, Doc("memory of one sequence; absent for models without linear attention")
    ] = None
    room: Annotated[
        tuple[RoomResult, ...] | None,
        Doc("users and cycles without choices that use SRAM for speed; absent if no such choice costs a user"),
    ] = None


def estimate_sram(prepared_estimate: PreparedEstimate, program: Program, grades: Grades) -> EstimateSram:
    """Return how a compiled model uses the SRAM of PEs, and how many users fit.

    Args:
        prepared_estimate: The request.
        program: The compiled model.
        grades: Evidence grades, which state how reliable each constant is.
    """
    sram_bytes = prepared_estimate.wafer.sram_bytes_per_pe
    return sram_result(program, sram_bytes).convert(
        EstimateSram,
        stages=tuple(use_bytes(program, stage, sram_bytes) for stage in range(len(program.stages))),
        code=CodeResult(
            bytes_per_pe=prepared_estimate.software.code_bytes_per_pe,
            grade=grades.weakest(("code_bytes_per_pe",))[0],
            research_bytes_per_pe=load_software(RESEARCH, prepared_estimate.wafer.generation).code_bytes_per_pe,
        ),
        users=tuple(
            UsersResult(context=context, users=users_at(program, context))
            for context in _contexts(prepared_estimate.spec, program.context)
            if context <= program.context
        ),
        block_tokens=cache_capacity(program, program.context).block_tokens,
        sequence=_sequence(prepared_estimate),
    )


def _sequence(prepared_estimate: PreparedEstimate) -> SequenceResult | None:
    """Return the memory that one sequence needs; None for a model without linear attention."""
    spec, options = prepared_estimate.spec, prepared_estimate.options
    element_bytes = ELEMENT_BYTES[options.activation_type]
    if spec.linear is None:
        return None
    kv_bytes_of_token = kv_bytes_per_token(spec, element_bytes)
    return SequenceResult(
        state_bytes=state_bytes(spec, element_bytes),
        kv_bytes_per_token=kv_bytes_of_token,
        kv_bytes=options.context * kv_bytes_of_token,
    )


def _contexts(spec: ModelSpec, context: int) -> list[int]:
    """Return the contexts to report: ``context``, the model's maximum, and `CONTEXTS` below it."""
    return sorted({*(c for c in CONTEXTS if c < spec.context_limit), context, spec.context_limit})


def users_at_longer_contexts(layout: ChosenLayout) -> tuple[UsersResult, ...]:
    """Return the number of users whose KV caches fit, for contexts above the requested one."""
    requested_context = layout.compilation.options.context
    return tuple(
        UsersResult(context=context, users=layout.users_at_longer_context(context))
        for context in _contexts(layout.prepared.spec, requested_context)
        if context > requested_context
    )


def sram_tables(
    sram: EstimateSram,
    batch: int,
    context: int,
    serving: ServingResult,
    *,
    for_one_user: bool,
    detail: bool,
    width: int,
) -> list[Table]:
    """Return tables of the fullest PE's SRAM and of the number of users whose caches fit.

    Args:
        sram: SRAM use to show.
        batch: Number of users whose tokens are decoded in one pass.
        context: Requested context per user in tokens.
        serving: Numbers of shared tokens and of replicas.
        for_one_user: Whether the layout was chosen for the latency of a single user.
        detail: Whether to add the size of the code, and a table with the SRAM use of one PE of each
            stage.
        width: Terminal width in characters.
    """
    code = sram.code
    fits = code.research_bytes_per_pe - code.bytes_per_pe <= sram.bytes_per_pe["free"]
    verb = "would fit too" if fits else "would not fit"
    comparison = f"the code of released research kernels, {count(code.research_bytes_per_pe)} B, {verb}"
    text = f"{count(code.bytes_per_pe)} B without stack and runtime; {comparison}"
    footer = [("code", text)] if detail else []
    if (sequence := sram.sequence) is not None:
        state, cache = f"state of {in_bytes(sequence.state_bytes)} at any context", in_bytes(sequence.kv_bytes)
        per_token = in_bytes(sequence.kv_bytes_per_token)
        footer.append(("sequence", f"{state}; KV cache of {per_token} per token, {cache} at {context:,} tokens"))
    fullest_pe_table = replace(
        fullest_table(sram, batch, context, width=width), note=cache_text(sram, batch, context), footer=tuple(footer)
    )
    room = [] if sram.room is None else [room_table(sram.room, context)]
    return [
        fullest_pe_table,
        _users_table(sram, context, serving, for_one_user=for_one_user),
        *room,
        *([_stages_table(sram.stages)] if detail else []),
    ]


def _users_table(sram: EstimateSram, max_context: int, serving: ServingResult, *, for_one_user: bool) -> Table:
    """Return a table of the number of users whose KV caches fit, by context length.

    Args:
        sram: SRAM use, with the numbers of users of one replica.
        max_context: Maximum context for which the buffers of the layout are large enough, in tokens.
        serving: Numbers of shared tokens and of replicas, for the note.
        for_one_user: Whether the layout was chosen for the latency of a single user. A note then
            says how to find layouts with more room.
    """
    users = sram.users
    rows = [
        {"name": "context", **{str(row.context): row.context for row in users}},
        {"name": "sequences", **{str(row.context): row.users for row in users}},
    ]
    columns = (Column(key="name"), *(number(str(row.context)) for row in users))
    note = "; --users N and --most-users search for layouts with more room" if for_one_user else ""
    replica = ", on one replica" if serving.replicas > 1 else ""
    prefix = f", with {plural(serving.prefix_tokens, 'shared token')}" if serving.prefix_tokens else ""
    block_text = (
        f"a KV cache grows in blocks of {plural(sram.block_tokens, 'token')}, one per PE row of the stage whose memory "
        "fills first"
    )
    buffers_text = (
        f"for contexts above {max_context:,} tokens, the numbers allow for larger buffers, such as attention scores; "
        "an estimate with a longer --prompt-len may choose a layout with more room"
    )
    return Table(
        columns=columns,
        rows=rows,
        title="Sequences whose KV caches fit",
        note=f"by context length, in this layout{replica}{prefix}{note}",
        footer=(
            ("blocks", block_text),
            *([("buffers", buffers_text)] if any(row.context > max_context for row in users) else []),
        ),
    )


def _stages_table(stages: tuple[BytesByUse, ...]) -> Table:
    """Return a table of the SRAM use of one PE of each stage, with one column per kind of use.

    Only the first ``MAX_ROWS`` stages are shown.
    """
    columns = (number("stage", "stage", str), *(number(use, use) for use in stages[0]))
    rows = [{"stage": index, **uses} for index, uses in enumerate(stages[:MAX_ROWS])]
    return Table(columns=columns, rows=rows, title="SRAM of a PE by stage", footer=more_rows(stages, MAX_ROWS))
