"""WaferSpec and SoftwareProfile: what the machine does, and what its software costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferSpec:
    """A wafer as programs see it. Every number's unit is in its name; its source is in the preset file.

    ``generation`` is the generation whose software costs apply, one of ``GENERATIONS``. ``announced``: this is what its
    vendor announced, and nobody has measured one.
    """

    name: str
    generation: str
    announced: bool = False
    mesh_rows: int  # usable PEs, north to south
    mesh_cols: int  # usable PEs, west to east
    clock_hz: float
    sram_bytes_per_pe: int
    runtime_bytes_per_pe: int  # the vendor runtime's irreducible share of SRAM
    task_table_bytes_per_pe: int  # must stay free for the task table
    sram_bytes_per_cycle: int  # read + write
    hop_cycles: int  # router to neighbouring router
    ramp_cycles: int  # one crossing between router and compute element
    stream_words_per_cycle: float  # one vector stream, compute element to compute element
    router_queue_words: int  # places of one colour's queue behind one port of a router
    colours: int  # statically configured routes that a router has
    reserved_colours: int  # of them taken by the host runtime
    switch_positions: int  # of one colour on one PE
    microthreads: int  # operations that a PE has in flight at the same time
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
    """Return the words of a vector stream between two pauses of a cycle each; 0 where it makes none."""
    return 0 if words_per_cycle >= 1 else max(1, round(words_per_cycle / (1 - words_per_cycle)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareProfile:
    """The costs of the software on the PEs of one generation, apart from the machine itself."""

    name: str
    code_bytes_per_pe: int
    stack_bytes_per_pe: int
    vector_issue_cycles: int  # one vector operation, before its elements
    mapped_issue_cycles: float  # each of the equal vector operations that one mapped operation makes
    bank_conflict_ratio: float  # cycles of a vector operation with two operands in SRAM over those without conflicts
    task_dispatch_cycles: int  # activating the task of one step on a PE
    reduce_gap_cycles: int  # between two vector operations on one PE inside a collective
    relay_cycles: int  # what a relay adds to the machine's own receive, add and send
    transfer_sync_cycles: int  # starting asynchronous transfers between neighbours and awaiting them
    loop_cycles: int  # one turn of a loop around vector operations
    function_cycles: int  # exp, sin, cos, square root, reciprocal of one element
    route_rewrite_cycles: int  # rewriting the routes of one pattern's colours between two uses
