"""Pass 6: assign a byte address in SRAM to every buffer of every stage.

All PEs of a stage have the same memory map. Two buffers share memory if their values are never
needed in the same step. A kernel's input and output also share memory if the kernel overwrites its
input while reading it for the last time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from wse.compiler.options import REFUSE
from wse.compiler.passes.lifetimes import (
    Replacements,
    Span,
    lifetimes,
    live_steps,
    may_coincide,
    replacing_steps,
    steps_before,
)
from wse.compiler.passes.sram_overflow import SramOverflow
from wse.compiler.state import State
from wse.compiler.symbolic import SymBuffer
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.stage import Buffer, Stage
from wse_mappings.rounding import round_up

MAX_ORDERS = 12
"""Maximum number of orders to try when placing the temporary buffers of a stage."""

ALIGNMENT_BYTES = 4  # one 32-bit word, the unit of a vector operand and of a wavelet


def allocate(state: State) -> State:
    """Assign SRAM addresses to all buffers.

    The pass sets ``buffers``, ``addresses`` and the SRAM range of every stage. For each stage:

    1. Code, stack and the vendor's runtime come first, followed by the buffers of the stage. A
       stage that stores the experts of all layers shares its PEs with all other stages. Its buffers
       start after the end of the stage that uses the most memory.
    2. Permanent buffers (weights, KV cache, token ids) are stored consecutively.
    3. Temporary buffers follow, largest first. Each gets the lowest address at which it overlaps no
       buffer that is live in any of the same steps (`_pack`). A buffer that may overwrite another
       buffer gets the same address (`_groups_at_one_address`). A buffer that no step uses gets no
       address.
    4. The stage ends after the last of its buffers.

    Raises:
        SramOverflow: A stage extends past the end of SRAM, and ``Options.capacity`` is ``refuse``.
    """
    spans, begins = lifetimes(state), steps_before(state.phases)
    replacements = replacing_steps(state)
    reserved = reserved_bytes(state.wafer, state.software)
    sym_buffers = [*state.weights, *state.sym_buffers]
    addresses: dict[SymBuffer, int] = {}
    all_buffers: list[Buffer] = []
    stages: list[Stage] = []
    for index, stage in enumerate(state.stages):
        stage_buffers = [b for b in sym_buffers if b.stage == index]
        # 1. Code, and the start of the stage.
        shares_pes = state.plans[index].experts  # with all other stages, whose code also executes this stage
        base = max(other_stage.sram_top_byte for other_stage in stages) if shares_pes else reserved
        base = aligned_bytes(base)
        top, placed_buffers = base, [] if shares_pes else [_code_buffer(index, base)]
        # 2. Permanent buffers.
        for buffer in (b for b in stage_buffers if b.permanent):
            addresses[buffer] = top
            placed_buffers.append(_buffer(state, buffer, top, ()))
            top += aligned_bytes(placed_buffers[-1].bytes)
        # 3. Temporary buffers.
        temporary = [b for b in stage_buffers if not b.permanent and b in spans]
        needs = {
            buffer: _Need(
                size=aligned_bytes(buffer.elements * state.options.element_bytes(buffer.view)),
                live=live_steps(spans[buffer], begins),
            )
            for buffer in temporary
        }
        omitted_bytes = state.further_bytes[index] if state.further_bytes else 0
        temporary_addresses = _pack(
            _groups_at_one_address(needs, replacements), needs, top, state.wafer.sram_bytes_per_pe - omitted_bytes
        )
        for buffer, address in temporary_addresses.items():
            addresses[buffer] = address
            placed_buffers.append(_buffer(state, buffer, address, spans[buffer]))
        # 4. The end of the stage.
        top = max([top, *(address + needs[buffer].size for buffer, address in temporary_addresses.items())])
        if top > state.wafer.sram_bytes_per_pe and state.options.capacity == REFUSE:
            fullest_stage = max(range(index), key=lambda i: stages[i].sram_top_byte) if shares_pes else -1
            fullest_stage_buffers = [b for b in all_buffers if b.stage == fullest_stage]
            raise SramOverflow(state, index, top, fullest_stage_buffers + placed_buffers)
        stages.append(replace(stage, sram_base_byte=base, sram_top_byte=top))
        all_buffers += placed_buffers
    return replace(state, stages=tuple(stages), buffers=tuple(all_buffers), addresses=addresses)


def free_bytes_per_pe(wafer: WaferSpec, software: SoftwareProfile) -> int:
    """Return how many bytes of SRAM per PE remain for a model after code, stack and runtime."""
    return wafer.sram_bytes_per_pe - reserved_bytes(wafer, software)


def reserved_bytes(wafer: WaferSpec, software: SoftwareProfile) -> int:
    """Return the bytes of a PE's SRAM that no buffer can use: code, stack, runtime and task table.

    Args:
        wafer: Wafer type.
        software: Software profile, which determines the sizes.
    """
    total = software.code_bytes_per_pe + software.stack_bytes_per_pe
    return aligned_bytes(total + wafer.runtime_bytes_per_pe + wafer.task_table_bytes_per_pe)


def _code_buffer(stage: int, size: int) -> Buffer:
    """Return the buffer at the start of SRAM that contains code, stack and vendor runtime."""
    return Buffer(
        stage=stage, name="code, stack and runtime", use="code", address=0, bytes=size, element="bytes", live=()
    )


def _buffer(state: State, buffer: SymBuffer, address: int, live: tuple[Span, ...]) -> Buffer:
    """Convert a buffer of the compiler to a buffer of the Program, which has an address.

    Args:
        state: Compilation state, which determines the element type.
        buffer: The buffer as created by lowering.
        address: Byte address on the PE.
        live: Intervals of steps in which the buffer is in use; empty for buffers that are always in
            use.
    """
    return Buffer(
        stage=buffer.stage,
        name=buffer.name,
        use=buffer.use,
        address=address,
        bytes=buffer.elements * state.options.element_bytes(buffer.view),
        element=state.options.element_type(buffer.view),
        live=live,
    )


class _Need(NamedTuple):
    """Size of a temporary buffer, and the steps in which it is in use.

    Attributes:
        size: Size in bytes, aligned.
        live: Steps in which the buffer must keep its value, as a bit set over the steps of all
            phases.
    """

    size: int
    live: int


class _Interval(NamedTuple):
    """An SRAM range that is assigned to a buffer.

    Attributes:
        address: First byte.
        end: One past the last byte.
        live: Steps in which the buffer must keep its value, as a bit set over the steps of all
            phases.
    """

    address: int
    end: int
    live: int


def aligned_bytes(size: int) -> int:
    """Return a size in bytes, rounded up to a multiple of 4, because buffers are aligned to words."""
    return round_up(size, ALIGNMENT_BYTES)


def _pack(
    places: list[list[SymBuffer]], needs: Mapping[SymBuffer, _Need], start: int, available: int
) -> dict[SymBuffer, int]:
    """Choose addresses for the temporary buffers of a stage by first-fit allocation with restarts.

    1. Place the groups in the given order, each at the lowest possible address (`_lowest_address`).
    2. If they do not fit, move the group that ends last to the front of the order and place all
       groups again. Make at most ``MAX_ORDERS`` attempts.
    3. Use the attempt that needs the least memory.

    Args:
        places: Groups of buffers that share an address, in the order in which they are placed.
        needs: Size and live steps of each buffer.
        start: First address.
        available: End address of the memory.

    Returns:
        The address of each buffer. Addresses may exceed the available memory.
    """
    best: dict[SymBuffer, int] = {}
    lowest_end = -1
    for _ in range(MAX_ORDERS):
        intervals: list[_Interval] = []
        addresses: dict[SymBuffer, int] = {}
        ends = [start]
        for at_one_place in places:  # 1
            address = _lowest_address(intervals, [needs[buffer] for buffer in at_one_place], start)
            for size, live in (needs[buffer] for buffer in at_one_place):
                intervals.append(_Interval(address, address + size, live))
            addresses |= dict.fromkeys(at_one_place, address)
            ends.append(address + max(needs[buffer].size for buffer in at_one_place))
        end = max(ends)
        if lowest_end < 0 or end < lowest_end:  # 3
            best, lowest_end = addresses, end
        if end <= available or len(places) < 2:
            break
        last_place = ends.index(end) - 1  # 2; -1 if the permanent buffers end last
        if last_place < 0:
            break
        places = [places[last_place], *places[:last_place], *places[last_place + 1 :]]
    return best


def _lowest_address(intervals: Sequence[_Interval], needs: Sequence[_Need], start: int) -> int:
    """Return the lowest address at which a group of buffers overlaps no other live buffer.

    Two buffers may overlap in memory only if they are never live in the same step. If ``begin`` and
    ``end`` are the limits of another live buffer, a buffer of ``size`` bytes overlaps it at all
    addresses between ``begin - size`` and ``end``. These blocked ranges are visited in ascending
    order, up to the first gap.

    Args:
        intervals: SRAM ranges that are already assigned to buffers.
        needs: Buffers of the group, all of which get the same address.
        start: First address.
    """
    blocked_ranges = [
        (begin - size, end) for begin, end, live in intervals for size, need_live in needs if live & need_live
    ]
    address = start
    for last_free, end in sorted(blocked_ranges):
        if last_free >= address:
            break
        address = max(address, end)
    return address


def _groups_at_one_address(needs: Mapping[SymBuffer, _Need], replacements: Replacements) -> list[list[SymBuffer]]:
    """Divide the temporary buffers of a stage into groups whose buffers get the same address.

    Buffers are visited in descending order of size. A buffer joins the group of another buffer
    under two conditions: a kernel may overwrite one with the other in place, and the buffer may
    share an address with all members of the group. Otherwise the buffer starts a new group.

    Args:
        needs: Size and live steps of each buffer.
        replacements: Pairs of buffers that may share an address, from `replacing_steps`.

    Returns:
        The groups, in descending order of the size of their largest buffer.
    """
    places: list[list[SymBuffer]] = []
    partners: dict[SymBuffer, list[SymBuffer]] = {}
    for source, target in replacements:
        partners.setdefault(source, []).append(target)
        partners.setdefault(target, []).append(source)
    place_of: dict[SymBuffer, list[SymBuffer]] = {}
    for buffer in sorted(needs, key=lambda b: (-needs[b].size, b.name)):
        partner_places = (
            place_of[other_buffer] for other_buffer in partners.get(buffer, ()) if other_buffer in place_of
        )
        live = needs[buffer].live
        possible_places = (
            place
            for place in partner_places
            if all(
                may_coincide(buffer, other_buffer, live, needs[other_buffer].live, replacements)
                for other_buffer in place
            )
        )
        place = next(possible_places, None)
        if place is None:
            places.append(place := [])
        place.append(buffer)
        place_of[buffer] = place
    return places
