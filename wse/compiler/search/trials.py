"""Trials in small of a layout and a product: the bytes that they need, how long a token takes, the chunks that fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from wse.compiler.demand import demand_of
from wse.compiler.options import (
    DECODE,
    MESH_GEMM_OWN,
    PREFILL_PRODUCTS,
    REPORT,
    THIN_GEMM,
    Choice,
    Options,
    Rewrites,
    unsupported_on_mesh,
)
from wse.compiler.search.condense import condense
from wse.compiler.strategies import strategies, strategy
from wse.errors import BadInput, DoesNotFit
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import parameters_per_token
from wse.program.program import Program
from wse_mappings.cuts.split import ceil_div
from wse_mappings.strategies.strategy import Demand, Layout

SMALLEST_HEAD_CHUNK = 16  # vocabulary entries a column; fewer would only add launches

ByOp = Callable[[Program], Sequence[float]]
"""Cycles of a generated token by op of a Program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A layout with a product for prefill, tried in small.

    Attributes:
        layout, prefill: What was tried.
        needed_bytes: Bytes on the fullest PE with the smallest chunks; 0 where colours ran out.
        fits: Whether a PE has as many.
        token_cycles: About what a generated token takes; None where that was not asked for or it does not fit.
    """

    layout: Layout
    prefill: str
    needed_bytes: int
    fits: bool
    token_cycles: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialSetup:
    """Inputs of all trials: the model, the machine, the software and the request that layouts are tried for.

    ``rewrites`` are used in all of them.
    """

    spec: ModelSpec
    wafer: WaferSpec
    software: SoftwareProfile
    options: Options
    rewrites: Rewrites

    @cached_property
    def demand(self) -> Demand:
        """The request as strategies see it."""
        return demand_of(self.spec, self.wafer, self.options)

    def layouts(self) -> list[Layout]:
        """The layouts of the mapping that was asked for, each once, the fewest regions first.

        Raises:
            BadInput: it has none.
        """
        mapping = self.options.mapping
        chosen = strategy(mapping)
        other_mappings = [name for name in strategies() if name != mapping] if chosen.tries_others else []
        layouts = chosen.layouts(self.demand, [strategies()[name] for name in other_mappings])
        if not (distinct := list(dict.fromkeys(layouts))):
            message = f"--mapping {mapping}: has no layout for this model and mesh; name another of `wse mappings`"
            raise BadInput(message)
        return distinct

    def least_token_cycles(self, layout: Layout) -> float:
        """About the fewest cycles that a token can take on regions of that shape: for the order of trials alone.

        Nine all-reduces of a layer go over whole lines, seven of them along columns, from the ends to the middle and
        back (He et al., WaferLLM, OSDI 2025); a PE multiplies with its share of the weights that a token uses.
        """
        rows, cols = layout.region(self.demand)
        hops = self.spec.layer_count * (7 * rows + 2 * cols) * self.wafer.hop_cycles
        macs = parameters_per_token(self.spec) / (rows * cols)
        return hops + macs / self.wafer.mac_fp16_fp32_per_cycle

    def products(self, layout: Layout) -> tuple[str, ...]:
        """Products of prefill to try on regions of that shape, the least demanding last; none where the one asked for
        needs another shape.

        Weights of prefill's own are tried unasked where they take the place of decode's, not beside them.
        """
        rows, cols = layout.region(self.demand)
        unasked = [p for p in PREFILL_PRODUCTS if p != MESH_GEMM_OWN or DECODE not in self.options.phases]
        products = unasked if self.options.prefill is None else [self.options.prefill]
        squares = rows == cols and not unsupported_on_mesh(self.spec, replace(self.options, mapping=layout.mapping))
        return tuple(product for product in products if squares or product == THIN_GEMM)

    def options_on(self, layout: Layout) -> Options:
        """The request with the mapping of a layout, and its groups."""
        groups = self.options.groups if layout.groups is None else layout.groups
        return replace(self.options, mapping=layout.mapping, groups=groups)

    def smallest(self, layout: Layout, prefill: str) -> tuple[Options, Choice]:
        """The least demanding choice: a token at once, and few entries of the vocabulary."""
        options = replace(self.options_on(layout), prompt_tokens=(1,) * self.options.batch)
        return options, self._choice(layout, prefill, 1, SMALLEST_HEAD_CHUNK)

    def trial(self, layout: Layout, prefill: str, by_op: ByOp | None = None) -> Trial:
        """A trial in small. Raises BadMesh where the mesh has no room for the regions."""
        options, choice = self.smallest(layout, prefill)
        small = condense(self.spec, self.wafer, self.software, options, choice)
        try:
            program, needed = small.program()
        except DoesNotFit:
            return Trial(layout=layout, prefill=prefill, needed_bytes=0, fits=False, token_cycles=None)
        fits = max(needed) <= self.wafer.sram_bytes_per_pe
        timed = by_op is not None and (fits or self.options.capacity == REPORT)
        cycles = small.in_all(program, by_op(program)) if by_op is not None and timed else None
        return Trial(layout=layout, prefill=prefill, needed_bytes=max(needed), fits=fits, token_cycles=cycles)

    def least_bytes(self, layout: Layout, prefill: str) -> int:
        """Bytes that the fullest PE needs at least: a small part of the work of a trial. Errors as of `trial`."""
        return condense(self.spec, self.wafer, self.software, *self.smallest(layout, prefill)).least_bytes()

    def shortest_line(self, layout: Layout, prefill: str) -> int:
        """PEs in the shortest row or column of any region."""
        plans = condense(self.spec, self.wafer, self.software, *self.smallest(layout, prefill)).state.plans
        return min(min(plan.rows, plan.cols * plan.span) for plan in plans)

    def largest_chunks(self, trial: Trial) -> Choice:
        """The fewest and largest chunks that fit, first of the head's vocabulary and then of the prompt."""
        layout, prefill = trial.layout, trial.prefill
        rows, cols = layout.region(self.demand)
        step, longest = 1 if prefill == THIN_GEMM else rows, max(self.options.prompt_tokens)
        smallest = min(step, longest)
        entries = halvings(ceil_div(self.spec.vocab_size, cols), SMALLEST_HEAD_CHUNK)
        options = self.options_on(layout)
        heads = [self._choice(layout, prefill, smallest, entry) for entry in entries]
        head = self._first_that_fits(options, heads).head_chunk
        return self._first_that_fits(
            options, [self._choice(layout, prefill, size, head) for size in chunks(longest, step)]
        )

    def _choice(self, layout: Layout, prefill: str, prefill_chunk: int, head_chunk: int) -> Choice:
        return Choice(
            bands=layout.bands,
            per_band=layout.per_band,
            turned=layout.turned,
            prefill=prefill,
            prefill_chunk=prefill_chunk,
            head_chunk=head_chunk,
            rewrites=self.rewrites,
        )

    def _first_that_fits(self, wanted: Options, choices: list[Choice]) -> Choice:
        """The first of some choices, each less demanding than the one before, that fits; the last if none does."""
        first = bisect_left(choices, True, key=lambda choice: self._holds(wanted, choice))  # noqa: FBT003
        return choices[min(first, len(choices) - 1)]

    def _holds(self, options_of_request: Options, choice: Choice) -> bool:
        prompt = min(choice.prefill_chunk, max(options_of_request.prompt_tokens))
        options = replace(options_of_request, prompt_tokens=(prompt,) * options_of_request.batch)
        try:
            needed = condense(self.spec, self.wafer, self.software, options, choice).needed_bytes()
        except DoesNotFit:
            return False
        return max(needed) <= self.wafer.sram_bytes_per_pe or self.options.capacity == REPORT


def halvings(largest: int, smallest: int) -> list[int]:
    """Sizes to try from the largest down to the smallest, each half of the one before."""
    sizes = [largest]
    while sizes[-1] > smallest:
        sizes.append(max(smallest, ceil_div(sizes[-1], 2)))
    return sizes


def chunks(prompt_tokens: int, step: int) -> list[int]:
    """Chunk sizes to try: the whole prompt, then fewer and fewer multiples of ``step``."""
    sizes = [prompt_tokens]
    for size in halvings(ceil_div(prompt_tokens, step), 1):
        if size * step < sizes[-1]:
            sizes.append(size * step)
    return sizes
