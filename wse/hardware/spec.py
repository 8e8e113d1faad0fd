"""WaferSpec and SoftwareProfile: the properties of a wafer, its mesh and its software costs."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Final

from wse.errors import BadMesh


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferSpec:
    """Properties of a wafer as programs see it.

    The unit of each number is in its name, and its source is in the preset file.

    Attributes:
        generation: Generation whose software costs apply, one of ``GENERATIONS``.
        announced: Whether the vendor has only announced the numbers, but nobody has measured such a
            wafer.
    """

    name: str
    generation: str
    announced: bool = False
    mesh_rows: int  # usable PEs, north to south
    mesh_cols: int  # usable PEs, west to east
    clock_hz: float
    sram_bytes_per_pe: int
    runtime_bytes_per_pe: int  # SRAM that the vendor's runtime always occupies
    task_table_bytes_per_pe: int  # must stay free for the task table
    sram_bytes_per_cycle: int  # read + write
    hop_cycles: int  # router to neighbouring router
    ramp_cycles: int  # one crossing between router and compute element
    stream_words_per_cycle: float  # one vector stream, compute element to compute element
    router_queue_words: int  # capacity of the queue of one colour at one port of a router
    colours: int  # number of routes per router that are configured before the program starts
    reserved_colours: int  # colours that the host runtime uses
    switch_positions: int  # number of routes among which one colour can switch on one PE
    microthreads: int  # maximum number of operations in flight on a PE
    mac_fp16_per_cycle: int  # fp16 x fp16 -> fp16
    mac_fp16_fp32_per_cycle: int  # fp16 x fp16 -> fp32
    mac_fp32_per_cycle: int
    add_fp16_per_cycle: int
    add_fp32_per_cycle: int
    max_fp32_per_cycle: int
    move_32bit_per_cycle: int
    convert_per_cycle: int  # fp16 <-> fp32
    logic_16bit_per_cycle: int
    shift_16bit_per_cycle: int
    wafer_link_bytes_per_s: float
    wafer_link_latency_s: float
    host_bytes_per_s: float
    host_round_trip_s: float  # small payload, wafer to host and back


def burst_words(words_per_cycle: float) -> int:
    """Return the number of words that a vector stream sends without a pause.

    A stream with an average rate below one word per cycle sends bursts of one word per cycle, with
    a pause of one cycle between two bursts.

    Args:
        words_per_cycle: Average rate of the stream.

    Returns:
        The number of words per burst; 0 at rates of 1 or more, at which the stream never pauses.
    """
    return 0 if words_per_cycle >= 1 else max(1, round(words_per_cycle / (1 - words_per_cycle)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareProfile:
    """Software costs on the PEs of one wafer generation, in addition to the hardware costs.

    The costs are memory for code and stack, and cycles for actions such as dispatching a task.
    """

    name: str
    code_bytes_per_pe: int
    stack_bytes_per_pe: int
    vector_issue_cycles: int  # one vector operation, before its elements
    mapped_issue_cycles: float  # each of the equal vector operations that one mapped operation consists of
    bank_conflict_ratio: float  # cycles of a vector operation with two operands in SRAM over those without conflicts
    task_dispatch_cycles: int  # activating the task of one step on a PE
    reduce_gap_cycles: int  # between two vector operations on one PE within a collective
    relay_cycles: int  # software overhead of a relay, besides the hardware's receive, add and send
    transfer_sync_cycles: int  # starting asynchronous transfers between neighbours and awaiting them
    loop_cycles: int  # one iteration of a loop around vector operations
    function_cycles: int  # exp, sin, cos, square root, reciprocal of one element
    route_rewrite_cycles: int  # rewriting the routes of one pattern's colours between two uses


LONGEST_SIDE: Final = 10_000
_FORM: Final = re.compile(r"\s*([0-9]{1,9})\s*[xX×]\s*([0-9]{1,9})\s*")


def parse_mesh(text: str, option: str = "mesh") -> tuple[int, int]:
    """Parse the numbers of rows and columns in a string of the form ROWSxCOLS.

    Args:
        text: Text such as ``16x24``.
        option: Option or key with this value, for the message.

    Raises:
        BadMesh: The string has a different form, or a side is outside 1 to 10,000.

    >>> parse_mesh("16x24")
    (16, 24)
    """
    match = _FORM.fullmatch(text)
    rows, cols = (int(side) for side in match.groups()) if match else (0, 0)
    if not 1 <= rows <= LONGEST_SIDE or not 1 <= cols <= LONGEST_SIDE:
        shown_text = repr(text) if len(text) <= 80 else repr(text[:80]) + "…"
        raise BadMesh(
            f"{option} {shown_text}: give ROWSxCOLS, such as 16x16, with each side from 1 to {LONGEST_SIDE:,}"
        )
    return rows, cols


def mesh_on(wafer: WaferSpec, rows: int, cols: int) -> WaferSpec:
    """Return a copy of a wafer whose mesh has only the given numbers of rows and columns.

    Args:
        wafer: Wafer type to copy, with the full mesh.
        rows, cols: Size of the mesh, at least 1 each.

    Raises:
        BadMesh: The wafer has fewer rows or columns, or a side is below 1.
    """
    if rows < 1 or cols < 1:
        raise BadMesh(f"mesh {rows}x{cols}: each side must be at least 1")
    if rows > wafer.mesh_rows or cols > wafer.mesh_cols:
        swapped = cols <= wafer.mesh_rows and rows <= wafer.mesh_cols
        hint = f"rows come first: {cols}x{rows} fits" if swapped else "give a smaller mesh (of each wafer, not of all)"
        raise BadMesh(
            f"mesh {rows}x{cols} is larger than {wafer.name}, which has {wafer.mesh_rows}x{wafer.mesh_cols} PEs; {hint}"
        )
    return dataclasses.replace(wafer, mesh_rows=rows, mesh_cols=cols)


def transposed_wafer(wafer: WaferSpec) -> WaferSpec:
    """Return a wafer with the rows and columns of its mesh swapped, for transposed layouts.

    Layouts can be transposed because links along rows and along columns have the same costs.
    """
    return dataclasses.replace(wafer, mesh_rows=wafer.mesh_cols, mesh_cols=wafer.mesh_rows)
