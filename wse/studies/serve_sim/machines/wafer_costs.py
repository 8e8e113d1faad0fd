"""Pass times on wafers: decode passes for some contexts, and prefill passes for some chunks.

All passes are compiled for the regions selected for the request, and for its batch slots. The SRAM
that passes need in addition to KV caches determines the cache capacity.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice
from wse.compiler.options import REPORT, THIN_GEMM, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.placeable import Placeable
from wse.compiler.search.search import Compilation
from wse.serving.route import as_loop
from wse.serving.simulation.costs.staged_costs import ChunkGrid, DecodeGrid, PassTime, StagedCosts
from wse.studies.estimate.timing.stage_times import RouteReader, pass_time
from wse.studies.results.sram import cache_capacity, max_states
from wse_mappings.rounding import ceil_div

CONTEXTS: Final = 9
"""Number of contexts for which decode passes are timed, from an empty to a full cache."""
LENGTH_FACTOR: Final = 4
"""Ratio between successive lengths for which last prompt chunks are timed."""


def wafer_costs(placeable: Placeable, compilation: Compilation) -> StagedCosts:
    """Compile and time the passes of a request for several contexts and chunk lengths.

    1. Compile the model for the longest prompt. The SRAM that remains free determines the KV-cache
       capacity.
    2. Time decode passes at `CONTEXTS` different cache lengths.
    3. Time prefill chunks of several lengths.

    Args:
        placeable: The validated request.
        compilation: The compiled model, whose layout is used for all passes.
    """
    compilation = replace(compilation, choice=_choice(compilation))
    context, slots = compilation.options.context, compilation.options.batch
    contexts = tuple(sorted({round(at * (context - 1) / (CONTEXTS - 1)) for at in range(CONTEXTS)}))
    chunk = compilation.choice.prefill_chunk
    prompts = (
        context - 1,
        *(min(chunk, context - 1),) * (slots - 1),
    )  # with all chunks, whose SRAM needs limit the cache capacity
    fabric = _fabric(placeable, compilation, prompts)
    reader, program = RouteReader(fabric), fabric.program
    routes = [as_loop(reader.route(program.decode, fabric.decode_cost(*(tokens,) * slots))) for tokens in contexts]
    room = cache_capacity(program, placeable.options.prompt_tokens[0] + placeable.new_tokens)
    return StagedCosts(
        decode=DecodeGrid(
            slots=slots,
            contexts=contexts,
            passes=tuple(pass_time(reader, placeable.wafer, route) for route in routes),
        ),
        prefill=_chunk_grid(placeable, compilation),
        kv_capacity_tokens=room.tokens,
        kv_block_tokens=room.block_tokens,
        state_tokens=room.state_tokens,
        max_states=max_states(program),
        max_users=max(1, room.users(1)),
        host_s=placeable.wafer.host_round_trip_s,
    )


def _choice(compilation: Compilation) -> Choice:
    """Return the compiler's choices, such as the layout, with a chunk size that suits all prompts.

    The chunk size is rounded up to a multiple of the number of PE rows of a stage, so that all PE
    rows process the same number of tokens. The compiler may have chosen another size if its prompt
    fits in one chunk. Rounding up needs no more SRAM, because the PE row with the most tokens stores
    the same number as before. With thin GEMMs, tokens are not distributed across PE rows, so the
    chunk size is kept.
    """
    choice, rows = compilation.choice, max(stage.rect.rows for stage in compilation.program.stages)
    if choice.prefill == THIN_GEMM:
        return choice
    return replace(choice, prefill_chunk=ceil_div(choice.prefill_chunk, rows) * rows)


def _chunk_grid(placeable: Placeable, compilation: Compilation) -> ChunkGrid:
    """Time the prefill passes, which read prompts in chunks of equal size.

    Full chunks are timed up to the end of the longest prompt. The last chunk of a prompt may be
    shorter. It is therefore timed for several lengths, each in two positions: as the only chunk of
    a prompt, and at the end of the longest prompt.
    """
    max_prompt, slots = compilation.options.context - 1, compilation.options.batch
    chunk = min(compilation.choice.prefill_chunk, max_prompt)
    earlier_tokens = (max_prompt - 1) // chunk * chunk
    lengths = [1]
    while LENGTH_FACTOR * lengths[-1] < chunk:
        lengths.append(LENGTH_FACTOR * lengths[-1])
    lengths += [chunk] * (chunk > 1)

    def times(prompt: int) -> tuple[PassTime, ...]:
        """Return the time of each chunk of a prompt. All other users have one-token prompts."""
        fabric = _fabric(placeable, compilation, (prompt, *(1,) * (slots - 1)))
        phases = fabric.program.prefill[: ceil_div(prompt, chunk)]
        reader = RouteReader(fabric)
        routes = [reader.route(phase, fabric.prefill_cost(index)) for index, phase in enumerate(phases)]
        return tuple(pass_time(reader, placeable.wafer, route) for route in routes)

    ends = [times(earlier_tokens + length) for length in lengths]
    return ChunkGrid(
        chunk_tokens=chunk,
        chunks=ends[-1],
        last_tokens=tuple(lengths),
        lasts=tuple((times(length)[-1], end[-1]) for length, end in zip(lengths, ends, strict=True)),
    )


def _fabric(placeable: Placeable, compilation: Compilation, prompts: tuple[int, ...]) -> Fabric:
    """Compile the model for other prompt lengths in the same layout, and return its timing model.

    The compiled Program may need more SRAM than a PE has. This is allowed, because only its times
    are used.

    Args:
        placeable: The validated request.
        compilation: The compiled model, whose layout is used.
        prompts: Length of each user's prompt in tokens.
    """
    options: Options = replace(compilation.options.with_prompts(prompts), capacity=REPORT)
    program = compile_choice(placeable.spec, placeable.wafer, placeable.software, options, compilation.choice)
    return Fabric(program, placeable.wafer, placeable.software, placeable.meshes)
