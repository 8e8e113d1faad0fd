"""The chunks of a layout: of a prompt, and of the head's vocabulary, the largest that fit."""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.options import Choice, Options
from wse.compiler.search.fitting.sizes import chunk_sizes, halvings
from wse.compiler.search.reduced.condense import condense
from wse.compiler.search.trial import Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.errors import DoesNotFit
from wse_mappings.cuts.split import ceil_div


def largest_chunks(setup: TrialSetup, trial: Trial) -> Choice:
    """Return the largest chunks that fit, first for the vocabulary of the head and then for the prompt.

    The whole vocabulary is the first guess. Of the prompt, where that is known, no more than the best chunk.
    """
    layout, prefill = trial.layout, trial.prefill
    _, cols = layout.region(setup.demand)
    step, longest = setup.row_tokens(layout, prefill), max(setup.options.prompt_tokens)
    smallest = min(step, longest)
    entries = halvings(ceil_div(setup.spec.vocab_size, cols), setup.smallest_head_chunk(layout))
    options = setup.options_on(layout)
    heads = [setup.choice(layout, prefill, smallest, entry) for entry in entries]
    head = first_that_fits(setup, options, heads, 0).head_chunk
    sizes = chunk_sizes(longest, step)
    guess = len(sizes) // 2
    if trial.prompts is not None and trial.prompts.sized:
        sizes, guess = sizes[sizes.index(trial.prompts.chunk) :], 0
    return first_that_fits(setup, options, [setup.choice(layout, prefill, size, head) for size in sizes], guess)


def first_that_fits(setup: TrialSetup, wanted: Options, choices: list[Choice], guess: int) -> Choice:
    """Return the first choice that fits; choices are ordered from the most to the least demanding.

    Looked for from a guess on, in steps that double (exponential search; Bentley and Yao, Information Processing
    Letters 1976).
    """
    too_demanding, first, at, stride = -1, len(choices) - 1, guess, 1
    while first - too_demanding > 1:
        if not too_demanding < at < first:
            at = (too_demanding + first) // 2
        if _holds(setup, wanted, choices[at]):
            first, at = at, at - stride
        else:
            too_demanding, at = at, at + stride
        stride *= 2
    return choices[first]


def _holds(setup: TrialSetup, options_of_request: Options, choice: Choice) -> bool:
    prompt = min(choice.prefill_chunk, max(options_of_request.prompt_tokens))
    options = replace(options_of_request, prompt_tokens=(prompt,) * options_of_request.batch)
    try:
        needed = condense(setup.spec, setup.wafer, setup.software, options, choice).allocate().needed_bytes()
    except DoesNotFit:
        return False
    return setup.allows(max(needed))
