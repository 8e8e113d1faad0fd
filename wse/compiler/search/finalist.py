"""One finalist of a search: the whole model compiled on the layout of a trial."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from wse.compiler.options import FITTED_TREES, WIDE_UNPACKING
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.fitting.attention_columns import fit_attention, free_columns
from wse.compiler.search.fitting.chunks import largest_chunks
from wse.compiler.search.fitting.unpacking import fit_unpacking
from wse.compiler.search.rewrite_search import RewriteTrial, UsefulRewrites
from wse.compiler.search.tile_sizes import WITHOUT_TILES
from wse.compiler.search.trees import FittedTrees, fit_trees
from wse.compiler.search.trials.trial import Trial
from wse.program.program import Program


class Finalist(NamedTuple):
    """A layout on which the whole model was compiled, not only a reduced model.

    Attributes:
        trial: Result of trying the layout on a reduced model (one layer of each kind).
        rewrites: The rewrites with which the whole model was compiled.
        saved_by_attention: Fraction of a layer's cycles that is saved because attention uses only
            some columns of PEs.
        unpacking: Number of quantised weights that a PE unpacks at a time, and the cycles per token
            that this saves; empty if it saves none.
        trees: The compiler settings with which the whole model was compiled, and the cycles saved
            by choosing a suitable number of PE groups for each all-reduce.
        program: The Program, without weight tiles.
    """

    trial: Trial
    rewrites: UsefulRewrites
    saved_by_attention: float
    unpacking: tuple[RewriteTrial, ...]
    trees: FittedTrees
    program: Program

    @property
    def attention_cols(self) -> int:
        """Maximum number of columns of a region that attention uses; 0 for all columns."""
        return self.trees.choice.attention_cols


def compile_finalist(
    rewrites: UsefulRewrites, trial: Trial, fitted_names: Collection[str], *, all_columns: bool = False
) -> Finalist:
    """Compile the whole model on the layout of a trial, without weight tiles.

    1. Choose the number of columns for attention and the sizes of chunks.
    2. Choose the number of quantised weights to unpack at a time, and the all-reduce trees, if
       these rewrites are requested.
    3. Compile the whole model with the resulting settings.

    Args:
        rewrites: The rewrites to use, and the inputs that all trials share.
        trial: The layout, with an approximately optimal prompt chunk.
        fitted_names: Names of the rewrites whose settings are fitted to the layout.
        all_columns: Whether attention uses all columns instead of a fitted number of columns.

    Raises:
        DoesNotFit: The layout needs too much SRAM or too many colours.
    """
    setup = replace(rewrites.setup, attention_cols=free_columns(rewrites.setup, trial))
    options = setup.options_on(trial.layout)
    # 1. Attention columns and chunks.
    choice, saved_by_attention = largest_chunks(setup, trial), 0.0
    if all_columns:
        choice = replace(choice, attention_cols=0)
    else:
        choice, saved_by_attention = fit_attention(setup, trial, choice)
    setup = replace(setup, attention_cols=choice.attention_cols)
    # 2. Unpacking and trees.
    choice, unpacking = fit_unpacking(setup, trial, choice) if WIDE_UNPACKING in fitted_names else (choice, ())
    trees = fit_trees(setup, trial.layout, choice) if FITTED_TREES in fitted_names else FittedTrees(choice, {})
    # 3. The whole model.
    program = compile_choice(setup.spec, setup.wafer, setup.software, options, trees.choice, WITHOUT_TILES)
    return Finalist(trial, rewrites, saved_by_attention, unpacking, trees, program)


def tree_trials(trees: FittedTrees, phase: str) -> tuple[RewriteTrial, ...]:
    """Return how many cycles all-reduces save in a phase because their PE groups were optimised.

    An all-reduce adds up values within groups of PEs, and then among the groups. The saving is
    returned in the form in which the search lists all changes that save cycles.

    Args:
        trees: The chosen numbers of groups, and the cycles that they save.
        phase: Name of the phase, such as ``decode``.

    Returns:
        A tuple with one item; an empty tuple if all numbers of groups are the default.
    """
    if not trees.choice.trees:
        return ()
    return (RewriteTrial(name=FITTED_TREES, setting=1, saved_cycles=trees.saved_cycles.get(phase, 0.0)),)
