"""Cycles that the output head saves with the largest chunk of the vocabulary that fits."""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.options import DECODE, MODEL
from wse.compiler.search.fitting.chunks import head_chunks
from wse.compiler.search.layer_cycles import cycles_by_step
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.search.reduced.representatives import head_alone
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse_mappings.regions.layout import Layout


def saved_by_large_head_chunk(setup: TrialSetup, layout: Layout, reduced: ReducedModel, needed_bytes: int) -> float:
    """Estimate the cycles that the head saves in a pass with the largest chunk that fits.

    A head chunk is the number of vocabulary entries per column whose logits are computed at a time.
    Trials use the smallest one, with which a layout needs the fewest bytes.

    1. Find the largest chunk whose additional logits fit. (They may share memory with the
       activations of layers, so that larger chunks may fit, too.)
    2. Time the head, without layers, with both chunks. The savings are those of launches and hops,
       which hardly depend on the number of tokens, so they also apply to prompts.

    Args:
        setup: Inputs that all trials share, with ``timing``.
        layout: Division of the wafers into regions.
        reduced: Reduced model of the layout with the smallest head chunk, after `allocate`.
        needed_bytes: Bytes on its fullest PE.
    """
    state = reduced.state
    if state.options.scope != MODEL:
        return 0.0
    # 1. The largest chunk.
    (head_cut,) = (cut for cut, plan in zip(state.cuts, state.plans, strict=True) if plan.has_head)
    bytes_of_entry = state.options.batch * state.options.element_bytes("acc")
    smallest_chunk, *larger_chunks = reversed(head_chunks(setup, layout))
    fitting_chunks = [
        chunk
        for chunk in larger_chunks
        if setup.allows(needed_bytes + (min(chunk, head_cut.vocab_per_pe) - smallest_chunk) * bytes_of_entry)
    ]
    if not fitting_chunks or smallest_chunk >= head_cut.vocab_per_pe:
        return 0.0
    # 2. The times with both chunks.
    head = head_alone(reduced)
    return _pass_cycles(setup, head, smallest_chunk) - _pass_cycles(setup, head, fitting_chunks[-1])


def _pass_cycles(setup: TrialSetup, head: ReducedModel, chunk: int) -> float:
    """Return the cycles of a decode pass through a model without layers.

    Args:
        setup: Inputs that all trials share, with ``timing``.
        head: Reduced model that has only the embedding and the head.
        chunk: Vocabulary entries per column whose logits are computed at a time.
    """
    options = replace(head.state.options, phases=(DECODE,), verify_tokens=0)
    choice = replace(head.state.choice, head_chunk=chunk)
    state = replace(head.state, options=options, choice=choice, last_pass="partition")
    program = replace(head, state=state).allocate().program()
    return float(cycles_by_step(setup, program, (0,))[0].all.sum())
