"""Pass 6: a byte address for every buffer. Buffers that are never live at the same time share space.

So do what a kernel reads for the last time and what it makes of that in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from wse.compiler.options import REFUSE
from wse.compiler.passes.lifetimes import Span, lifetimes, live_steps, steps_before
from wse.compiler.passes.replacements import Replacements, may_coincide, replacing_steps
from wse.compiler.passes.sram_overflow import SramOverflow
from wse.compiler.state import State
from wse.compiler.symbolic import SymBuffer
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Buffer, Stage

MOST_ORDERS = 12
"""Orders in which buffers are placed, where a stage does not fit in the first ones."""

ALIGNMENT_BYTES = 4  # one 32-bit word, the unit of a vector operand and of a wavelet


def element_type(state: State, view: str) -> str:
    """Element type of a view."""
    return state.options.element_type(view)


def element_bytes(state: State, view: str) -> int:
    """Return the bytes of one element of a view."""
    return ELEMENT_BYTES[element_type(state, view)]


def allocate(state: State) -> State:
    """Fill ``buffers``, ``addresses`` and the SRAM bounds of ``stages``, stage by stage.

    1. Code, stack and what the vendor's runtime keeps come first. The stage of experts, which shares PEs with the
       others, begins above the fullest of them.
    2. Permanent buffers (weights, cache, token ids) follow one another.
    3. The others go by size, the largest first, each at the lowest address behind the permanent ones where no buffer
       stands that is live in one of the same steps. What may be made in the place of another stands at its address. A
       buffer that no step uses gets no address. Where the stage does not fit so, the buffer that ends last goes first,
       again and again while that helps.
    4. The stage ends behind the highest of them.

    Raises SramOverflow where that is beyond the SRAM, unless the request is to report it (``Options.capacity``).
    """
    spans, begins = lifetimes(state), steps_before(state.phases)
    replacements = replacing_steps(state)
    reserved = reserved_bytes(state.wafer, state.software)
    sym_buffers = [*state.weights, *state.sym_buffers]
    addresses: dict[SymBuffer, int] = {}
    all_buffers: list[Buffer] = []
    stages: list[Stage] = []
    for index, stage in enumerate(state.stages):
        of_stage = [b for b in sym_buffers if b.stage == index]
        # 1. Where the stage begins.
        above = state.plans[index].experts  # in the SRAM of the other stages, whose code runs it too
        base = max(below.sram_top_byte for below in stages) if above else reserved
        base = aligned_bytes(base)
        top, placed = base, [] if above else [_code_buffer(index, base)]
        # 2. Permanent buffers.
        for buffer in (b for b in of_stage if b.permanent):
            addresses[buffer] = top
            placed.append(_buffer(state, buffer, top, ()))
            top += aligned_bytes(placed[-1].bytes)
        # 3. The others, the largest first.
        temporary = [b for b in of_stage if not b.permanent and b in spans]
        needs = {
            buffer: _Need(
                size=aligned_bytes(buffer.elements * element_bytes(state, buffer.view)),
                during=live_steps(spans[buffer], begins),
            )
            for buffer in temporary
        }
        further = state.further_bytes[index] if state.further_bytes else 0
        packed = _pack(_places(needs, replacements), needs, top, state.wafer.sram_bytes_per_pe - further)
        for buffer, address in packed.items():
            addresses[buffer] = address
            placed.append(_buffer(state, buffer, address, spans[buffer]))
        # 4. The end of the stage.
        top = max([top, *(address + needs[buffer].size for buffer, address in packed.items())])
        if top > state.wafer.sram_bytes_per_pe and state.options.capacity == REFUSE:
            fullest = max(stages, key=lambda s: s.sram_top_byte) if above else None
            beside = [b for b in all_buffers if fullest is not None and b.stage == stages.index(fullest)]
            raise SramOverflow(state, index, top, beside + placed)
        stages.append(replace(stage, sram_base_byte=base, sram_top_byte=top))
        all_buffers += placed
    return replace(state, stages=tuple(stages), buffers=tuple(all_buffers), addresses=addresses)


def reserved_bytes(wafer: WaferSpec, software: SoftwareProfile) -> int:
    """Code, stack, runtime and task table."""
    total = software.code_bytes_per_pe + software.stack_bytes_per_pe
    return aligned_bytes(total + wafer.runtime_bytes_per_pe + wafer.task_table_bytes_per_pe)


def _code_buffer(stage: int, size: int) -> Buffer:
    return Buffer(
        stage=stage, name="code, stack and runtime", use="code", address=0, bytes=size, element="bytes", live=()
    )


def _buffer(state: State, buffer: SymBuffer, address: int, live: tuple[Span, ...]) -> Buffer:
    return Buffer(
        stage=buffer.stage,
        name=buffer.name,
        use=buffer.use,
        address=address,
        bytes=buffer.elements * element_bytes(state, buffer.view),
        element=element_type(state, buffer.view),
        live=live,
    )


class _Need(NamedTuple):
    """A number of bytes that are in use during some steps, given as a bit set."""

    size: int
    during: int


class _Interval(NamedTuple):
    """A range of SRAM addresses that is in use during some steps, given as a bit set."""

    address: int
    end: int
    during: int


def aligned_bytes(size: int) -> int:
    """Return the bytes of a buffer including padding up to the next allowed address."""
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _pack(
    places: list[list[SymBuffer]], needs: Mapping[SymBuffer, _Need], start: int, available: int
) -> dict[SymBuffer, int]:
    """Return addresses for buffers from ``start`` on, in the given order of places or in a better one.

    Where they end behind the ``available`` bytes, what ends last is placed before all others, up to ``MOST_ORDERS``
    times; of all orders the one that ends first is taken.
    """
    best: dict[SymBuffer, int] = {}
    least_end = -1
    for _ in range(MOST_ORDERS):
        intervals: list[_Interval] = []
        at: dict[SymBuffer, int] = {}
        ends = [start]
        for at_one_place in places:
            address = _lowest(intervals, [needs[buffer] for buffer in at_one_place], start)
            for size, during in (needs[buffer] for buffer in at_one_place):
                intervals.append(_Interval(address, address + size, during))
            at |= dict.fromkeys(at_one_place, address)
            ends.append(address + max(needs[buffer].size for buffer in at_one_place))
        end = max(ends)
        if least_end < 0 or end < least_end:
            best, least_end = at, end
        if end <= available or len(places) < 2:
            break
        last = ends.index(end) - 1
        if last < 0:
            break
        places = [places[last], *places[:last], *places[last + 1 :]]
    return best


def _lowest(intervals: Sequence[_Interval], needs: Sequence[_Need], start: int) -> int:
    """Return the lowest address at which none of the ``needs`` overlaps memory that is live in the same steps.

    What clashes with an address does so by its end and by the address from which on the needs reach into it: in the
    order of these the first that is not reached leaves room before it, and before all others.
    """
    others = [(begin - size, end) for begin, end, live in intervals for size, during in needs if live & during]
    address = start
    for reached_behind, end in sorted(others):
        if reached_behind >= address:
            break
        address = max(address, end)
    return address


def _places(needs: Mapping[SymBuffer, _Need], replacements: Replacements) -> list[list[SymBuffer]]:
    """Return groups of buffers that share an address, the largest first."""
    places: list[list[SymBuffer]] = []
    partners: dict[SymBuffer, list[SymBuffer]] = {}
    for source, target in replacements:
        partners.setdefault(source, []).append(target)
        partners.setdefault(target, []).append(source)
    place_of: dict[SymBuffer, list[SymBuffer]] = {}
    for buffer in sorted(needs, key=lambda b: (-needs[b].size, b.name)):
        known = (place_of[other] for other in partners.get(buffer, ()) if other in place_of)
        during = needs[buffer].during
        fits_in = (
            place
            for place in known
            if all(may_coincide(buffer, other, during, needs[other].during, replacements) for other in place)
        )
        place = next(fits_in, None)
        if place is None:
            places.append(place := [])
        place.append(buffer)
        place_of[buffer] = place
    return places
