"""Costs of passes on wafers, compiled: a grid of contexts for decoding, of tokens and contexts for prompts.

All are of the regions that were chosen for the request, and of passes with as many slots for users as its batch has.
What a pass takes of SRAM beside the caches decides how many tokens of cache there is room for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.backends.fabric.model import Fabric
from wse.compiler.options import REPORT, THIN_GEMM, Choice, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.placeable import Placeable
from wse.compiler.search.search import Compilation
from wse.serving.route import as_loop
from wse.serving.simulation.staged_costs import ChunkGrid, DecodeGrid, PassTime, StagedCosts
from wse.studies.estimate.timing.stage_times import RouteReader, pass_time
from wse.studies.results.users import cache_capacity

CONTEXTS: Final = 9
"""Contexts of the grid, from none to the longest."""
LENGTH_FACTOR: Final = 4
"""Last chunks of prompts are compiled for lengths each as many times the one before."""


def wafer_costs(prepared: Placeable, compilation: Compilation) -> StagedCosts:
    """Return the costs of a request's passes."""
    compilation = replace(compilation, choice=_choice(compilation))
    context, slots = compilation.options.context, compilation.options.batch
    contexts = tuple(sorted({round(at * (context - 1) / (CONTEXTS - 1)) for at in range(CONTEXTS)}))
    chunk = compilation.choice.prefill_chunk
    prompts = (
        context - 1,
        *(min(chunk, context - 1),) * (slots - 1),
    )  # one with all chunks, for what they need of SRAM
    fabric = _fabric(prepared, compilation, prompts)
    reader, program = RouteReader(fabric), fabric.program
    routes = [as_loop(reader.route(program.decode, fabric.decode_cost(*(tokens,) * slots))) for tokens in contexts]
    room = cache_capacity(program, prepared.options.prompt_tokens[0] + prepared.new_tokens)
    return StagedCosts(
        decode=DecodeGrid(
            slots=slots,
            contexts=contexts,
            passes=tuple(pass_time(reader, prepared.wafer, route) for route in routes),
        ),
        prefill=_chunk_grid(prepared, compilation),
        kv_capacity_tokens=room.tokens,
        kv_block_tokens=room.block_tokens,
        most_users=max(1, room.tokens // room.block_tokens),
        host_s=prepared.wafer.host_round_trip_s,
    )


def _choice(compilation: Compilation) -> Choice:
    """Return the choice of a compilation with chunks that prompts of any length can be read in.

    A product on the mesh gives all rows of a region an equal share of a whole chunk; a prompt that is one chunk need
    not have one.
    """
    choice, rows = compilation.choice, max(stage.rect.rows for stage in compilation.program.stages)
    if choice.prefill == THIN_GEMM:
        return choice
    return replace(choice, prefill_chunk=max(rows, choice.prefill_chunk // rows * rows))


def _chunk_grid(prepared: Placeable, compilation: Compilation) -> ChunkGrid:
    """Whole chunks up to the longest prompt; and last ones of several lengths, at its begin and at its end."""
    longest, slots = compilation.options.context - 1, compilation.options.batch
    chunk = min(compilation.choice.prefill_chunk, longest)
    before = (longest - 1) // chunk * chunk
    lengths = [1]
    while LENGTH_FACTOR * lengths[-1] < chunk:
        lengths.append(LENGTH_FACTOR * lengths[-1])
    lengths += [chunk] * (chunk > 1)

    def times(prompt: int) -> tuple[PassTime, ...]:
        """Return the chunks of a prompt, in a Program with a prompt for each slot."""
        fabric = _fabric(prepared, compilation, (prompt, *(1,) * (slots - 1)))
        of_prompt = fabric.program.prefill[: -(-prompt // chunk)]
        reader, phases = RouteReader(fabric), enumerate(of_prompt)
        routes = [reader.route(phase, fabric.prefill_cost(index)) for index, phase in phases]
        return tuple(pass_time(reader, prepared.wafer, route) for route in routes)

    ends = [times(before + length) for length in lengths]
    return ChunkGrid(
        chunk_tokens=chunk,
        chunks=ends[-1],
        last_tokens=tuple(lengths),
        lasts=tuple((times(length)[-1], end[-1]) for length, end in zip(lengths, ends, strict=True)),
    )


def _fabric(prepared: Placeable, compilation: Compilation, prompts: tuple[int, ...]) -> Fabric:
    """Return the fabric model of the same regions for other prompts; what it needs of SRAM is reported, not refused."""
    options: Options = replace(compilation.options, prompt_tokens=prompts, capacity=REPORT)
    program = compile_choice(prepared.spec, prepared.wafer, prepared.software, options, compilation.choice)
    return Fabric(program, prepared.wafer, prepared.software, prepared.meshes)
