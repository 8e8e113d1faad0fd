"""Selection of the passes that a timeline shows: all, those of some tokens, or the most that fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.errors import BadInput, BadTrace
from wse.tracing.query.view import check_range
from wse_traces.reader.executed_steps import schedule_rows
from wse_traces.reader.read import Array, Trace
from wse_traces.schema import PHASES

MAX_SLICES: Final = 200_000  # about 80 MB of JSON, which a viewer in a browser can still open
PREFILL: Final = PHASES.index("prefill")
LATEST_CYCLE: Final = 1 << 53  # integers up to this one are exact in JSON


@dataclass(frozen=True, slots=True, eq=False)
class PassSelection:
    """Passes (runs of a prefill, decode or verify phase) and tokens that a timeline shows.

    Attributes:
        passes: int64 ``[pass]``: indices of the passes, ordered by start time.
        tokens: int64 ``[token]``: indices of the tokens that these passes read or generated, in
            ascending order.
        slices: Total number of steps in these passes. Each step is a slice (bar) of the timeline.
        left_out: Number of passes omitted because the file would become too large.
    """

    passes: Array
    tokens: Array
    slices: int
    left_out: int


def select_passes(trace: Trace, tokens: tuple[int, int] | None) -> PassSelection:
    """Select the passes that a timeline shows: the passes of a token range, or all passes.

    A timeline has at most ``MAX_SLICES`` steps. If all passes together have more steps, prefill
    passes are omitted, unless there are only prefill passes. The first passes that fit are then
    selected.

    Args:
        trace: Trace of a run or estimate.
        tokens: Indices of the first and last token, or None for all passes.

    Returns:
        The selected passes, their tokens, and the number of omitted passes.

    Raises:
        BadInput: There is no such token, or the passes of the tokens have too many steps.
        BadTrace: A single pass has too many steps, a pass has no schedule, or a cycle count is out
            of range.
        TraceError: The trace is damaged.
    """
    token_pass = trace.column("tokens/pass")
    schedule, start = trace.column("passes/schedule"), trace.column("passes/start_cycle")
    _, counts = schedule_rows(trace)
    check_range(trace, "passes/schedule", schedule, len(counts))
    check_range(trace, "passes/start_cycle", start, LATEST_CYCLE)
    check_range(trace, "schedules/cycles", trace.column("schedules/cycles"), LATEST_CYCLE)
    if tokens is None:
        passes = np.argsort(start, kind="stable")
        is_prompt = trace.column("schedules/phase")[schedule[passes]] == PREFILL
        if counts[schedule].sum() > MAX_SLICES and not is_prompt.all():
            passes = passes[~is_prompt]
    else:
        count = len(token_pass)
        if tokens[0] >= count:
            available_tokens = f"{trace.path} has the tokens 0 to {count - 1}" if count else f"{trace.path} has none"
            raise BadInput(f"--tokens {tokens[0]}-{tokens[1]}: {available_tokens}; give some of those")
        passes_of_tokens = token_pass[tokens[0] : tokens[1] + 1]
        passes = np.unique(passes_of_tokens[(passes_of_tokens >= 0) & (passes_of_tokens < len(start))])
        passes = passes[np.argsort(start[passes], kind="stable")]
    slices = np.cumsum(counts[schedule[passes]])
    shown_passes = int(np.searchsorted(slices, MAX_SLICES, side="right"))
    if shown_passes < len(passes):
        too_many = f"at most {MAX_SLICES:,} are written"
        if tokens is not None:
            raise BadInput(
                f"--tokens {tokens[0]}-{tokens[1]}: {int(slices[-1]):,} steps, {too_many}; give fewer tokens"
            )
        if shown_passes == 0:
            raise BadTrace(f"{trace.path}: a pass of {int(slices[0]):,} steps, {too_many}; use --to parquet")
    is_shown = np.isin(token_pass, passes[:shown_passes])
    if tokens is not None:
        # A pass may have more tokens than the requested ones.
        number = np.arange(len(token_pass))
        is_shown &= (number >= tokens[0]) & (number <= tokens[1])
    slice_count = int(slices[shown_passes - 1]) if shown_passes else 0
    left_out = (len(start) if tokens is None else len(passes)) - shown_passes
    return PassSelection(passes[:shown_passes], np.flatnonzero(is_shown), slice_count, left_out)
