"""Time of all prompts of a request on a layout, from two chunk sizes on a reduced model."""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.options import MESH_GEMM_OWN, PREFILL
from wse.compiler.search.fitting.chunks import chunk_sizes
from wse.compiler.search.layer_cycles import cycles_by_step
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.search.reduced.representatives import reduced_model
from wse.compiler.search.trials.timed_token import at_middle_of_prompt
from wse.compiler.search.trials.trial import ChunkTime, PromptTime, StepCycles, Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.program.program import Program
from wse_mappings.rounding import ceil_div

SMALL_CHUNK = 8
"""Number of tokens per prompt chunk, or per row on the mesh, in the second trial of a layout."""


def prompt_time(setup: TrialSetup, trial: Trial, first_chunk: ChunkTime) -> PromptTime:
    """Return the time of all prompts with approximately the best size of chunks.

    Larger chunks need fewer cycles per token; smaller ones keep more stages busy.

    1. Compile with a small chunk, unless the prompts are too short for it. Comparison with the
       smallest chunk gives the bytes and cycles of each additional token per row.
    2. Find the chunk sizes that fit.
    3. Extrapolate the total prompt time for each of these sizes, and choose the fastest.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trial: Trial with the bytes per PE that the smallest chunk needs.
        first_chunk: Time of the smallest chunk, which is one token or, if PE rows divide the
            tokens, one token per row.
    """
    step, longest_prompt = setup.min_chunk_tokens(trial.layout, trial.prefill), max(setup.options.unread_tokens)
    prompt_tokens = sum(setup.options.unread_tokens)
    tokens = min(SMALL_CHUNK * step, longest_prompt)
    additional_rows = ceil_div(tokens, step) - 1
    if not additional_rows:
        return PromptTime(first_chunk.cycles_of_chunks(prompt_tokens / step), min(step, longest_prompt))
    # 1. A small chunk.
    options, choice = setup.smallest_choice(trial.layout, trial.prefill, tokens)
    if trial.prefill != MESH_GEMM_OWN:  # decode has no weights of its own, and smaller buffers
        options = replace(options, phases=(PREFILL,))
    reduced = reduced_model(setup.spec, setup.wafer, setup.software, options, choice).allocate()
    needed_bytes, program = max(reduced.needed_bytes()), at_middle_of_prompt(setup, reduced.program())
    (chunk_cycles,) = cycles_by_step(setup, program, (0,))
    longer_chunk = chunk_time(setup, reduced, program, chunk_cycles)
    bytes_of_row = (needed_bytes - trial.needed_bytes) / additional_rows
    # 2. Chunk sizes that fit.
    sizes = chunk_sizes(longest_prompt, step)
    free = setup.wafer.sram_bytes_per_pe - trial.needed_bytes
    fitting = [size for size in sizes if (ceil_div(size, step) - 1) * bytes_of_row <= free] or sizes[-1:]
    # 3. The time of prompts.
    prompts = []
    for size in fitting:
        rows = (ceil_div(size, step) - 1) / additional_rows
        time = ChunkTime(
            *(
                short_time + rows * (long_time - short_time)
                for short_time, long_time in zip(first_chunk, longer_chunk, strict=True)
            )
        )
        prompts.append(PromptTime(time.cycles_of_chunks(prompt_tokens / size), size))
    return min(prompts)


def chunk_time(setup: TrialSetup, reduced: ReducedModel, program: Program, cycles: StepCycles) -> ChunkTime:
    """Return the time of a prompt chunk in the whole model, computed from the reduced model.

    In a search for many users, chunks of different prompts follow each other directly. A chunk then
    adds only the cycles of the busiest stage or link to the total, so both results are these cycles.

    Args:
        setup: Inputs that all trials share.
        reduced: Model with one layer of each kind, which represents the whole model.
        program: Its Program, whose first phase is the chunk.
        cycles: Cycle counts of the steps of the chunk.
    """
    phase = program.phases[0]
    busiest_cycles = reduced.busiest_cycles(program, phase, cycles)
    all_cycles = busiest_cycles if setup.many_users else reduced.sum_over_model(program, phase, cycles.all)
    return ChunkTime(all_cycles, busiest_cycles)
