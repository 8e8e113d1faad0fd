"""Choice of chunk sizes: the largest chunks of prompts and of the head's vocabulary that fit."""

from __future__ import annotations

from wse.compiler.choice import Choice
from wse.compiler.search.reduced.representatives import reduced_model
from wse.compiler.search.trials.trial import Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.errors import DoesNotFit
from wse_mappings.regions.layout import Layout
from wse_mappings.rounding import ceil_div


def largest_chunks(setup: TrialSetup, trial: Trial) -> Choice:
    """Return the compiler settings with the largest chunks that fit in SRAM.

    The chunk of the output head (vocabulary entries per column whose logits are computed at a time)
    is chosen first, starting with the whole vocabulary. The prompt chunk (tokens) follows. If the
    trial has determined the best size of prompt chunks, larger ones are not tried.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trial: Result of trying the layout on a reduced model.
    """
    layout, prefill = trial.layout, trial.prefill
    step, longest_prompt = setup.min_chunk_tokens(layout, prefill), max(setup.options.unread_tokens)
    smallest_chunk = min(step, longest_prompt)
    heads = [setup.choice(layout, prefill, smallest_chunk, entries) for entries in head_chunks(setup, layout)]
    head = first_that_fits(setup, layout, heads).head_chunk
    sizes = chunk_sizes(longest_prompt, step)
    guess = len(sizes) // 2
    if trial.prompts is not None:
        sizes, guess = sizes[sizes.index(trial.prompts.chunk) :], 0
    return first_that_fits(setup, layout, [setup.choice(layout, prefill, size, head) for size in sizes], guess)


def head_chunks(setup: TrialSetup, layout: Layout) -> list[int]:
    """Return sizes of head chunks to try, in vocabulary entries per column, in descending order.

    The first size is the whole vocabulary, and the last one is the smallest that is worth trying.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Division of the wafers into regions.
    """
    _, cols = layout.region(setup.demand)
    return halvings(ceil_div(setup.spec.vocab_size, cols), setup.smallest_head_chunk(layout))


def first_that_fits(setup: TrialSetup, layout: Layout, choices: list[Choice], guess: int = 0) -> Choice:
    """Return the first settings that fit, from a list in descending order of memory use.

    The search starts at a guess and doubles its step size (exponential search; Bentley and Yao,
    Information Processing Letters 1976). The last settings are returned if none fit.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Division of the wafers into regions.
        choices: Settings for compiling the layout, which differ in their memory use.
        guess: Index of the settings to try first.
    """
    too_demanding, first, at, stride = -1, len(choices) - 1, guess, 1
    while first - too_demanding > 1:
        if not too_demanding < at < first:
            at = (too_demanding + first) // 2
        if _fits(setup, layout, choices[at]):
            first, at = at, at - stride
        else:
            too_demanding, at = at, at + stride
        stride *= 2
    return choices[first]


def _fits(setup: TrialSetup, layout: Layout, choice: Choice) -> bool:
    """Return whether a model compiled with given settings fits in SRAM and has enough routes.

    The prompts of the request are shortened to one chunk.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Division of the wafers into regions.
        choice: The settings, such as the chunk size.
    """
    options = setup.options_on(layout).with_one_chunk(choice.prefill_chunk)
    try:
        needed_bytes = reduced_model(setup.spec, setup.wafer, setup.software, options, choice).allocate().needed_bytes()
    except DoesNotFit:
        return False
    return setup.allows(max(needed_bytes))


def halvings(max_size: int, min_size: int) -> list[int]:
    """Return sizes from ``max_size`` down to ``min_size``, each half of the preceding size.

    Halves are rounded up. The last size may be more than half of the preceding one.

    >>> halvings(20, 4)
    [20, 10, 5, 4]
    """
    sizes = [max_size]
    while sizes[-1] > min_size:
        sizes.append(max(min_size, ceil_div(sizes[-1], 2)))
    return sizes


def chunk_sizes(prompt_tokens: int, step: int) -> list[int]:
    """Return sizes of prompt chunks to try, in descending order.

    The first size is the whole prompt. The other sizes are multiples of ``step``, each about half
    of the preceding one.

    >>> chunk_sizes(20, 8)
    [20, 16, 8]
    """
    sizes = [prompt_tokens]
    for size in halvings(ceil_div(prompt_tokens, step), 1):
        if size * step < sizes[-1]:
            sizes.append(size * step)
    return sizes
