"""Setup of a search: the inputs that all its trials share, and what to try.

It lists the layouts, prefill products and fallbacks to try, and creates the options and choice for
compiling a layout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

from wse.compiler.choice import Choice, Rewrites
from wse.compiler.demand import demand_of
from wse.compiler.options import (
    DECODE,
    FITTED_TREES,
    MESH_GEMM_OWN,
    MODEL,
    OPTIMIZED,
    PREFILL_PRODUCTS,
    REPORT,
    THIN_GEMM,
    Options,
    unsupported_on_mesh,
)
from wse.compiler.passes.allocate import reserved_bytes
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.reduced.misfits import Misfits
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.search.reduced.representatives import reduced_model
from wse.compiler.search.trials.trial import Timer
from wse.compiler.strategies import strategies, strategy
from wse.errors import BadInput
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import cache_bytes
from wse.number_formats import ELEMENT_BYTES
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout

SMALLEST_HEAD_CHUNK = 16
"""Minimum vocabulary entries per column and chunk. Smaller chunks only add launches."""


@dataclass(frozen=True, kw_only=True)
class TrialSetup:
    """Inputs that all trials of a search for the best layout share.

    Setups with equal inputs are equal, whatever misfits they know, because misfits do not change
    results.

    Attributes:
        spec, wafer, software, options: Model, machine, software and request.
        rewrites: Rewrites that all trials use.
        verify_rewrites: Rewrites for verification passes; None to use ``rewrites`` for them.
        attention_cols: Maximum number of columns for attention, where it may be restricted; 0 for
            all columns.
        timing: Functions that time Programs; None for trials without times.
        misfits: Stages that are known to need more bytes than a PE has.
        whole_layers: True if no layer may be split between stages.
        users: Number of users in flight; may be infinite. Each layout runs decode passes for them
            at the same time, up to the number of passes that it allows. A pass generates one token
            for each user of a batch.
    """

    spec: ModelSpec
    wafer: WaferSpec
    software: SoftwareProfile
    options: Options
    rewrites: Rewrites
    verify_rewrites: Rewrites | None = None
    attention_cols: int = 0
    timing: Timer | None = None
    misfits: Misfits = field(default_factory=Misfits, compare=False)
    whole_layers: bool = False
    users: float = 1

    @property
    def many_users(self) -> bool:
        """True if the search is for several users: `explore` then tries only layouts on whole wafers."""
        return self.users > 1

    @cached_property
    def for_any_users(self) -> TrialSetup:
        """Setup for infinitely many users, or for one user if this search is for one; otherwise the same.

        Results that do not depend on the number of users are cached by this setup, so that searches
        for other numbers of users can use them.
        """
        users = math.inf if self.many_users else 1
        return self if users == self.users else replace(self, users=users)

    @property
    def max_passes(self) -> float:
        """Number of decode passes, each for a batch of users, that serve all users; may be a fraction."""
        return self.users / self.options.batch

    @cached_property
    def demand(self) -> Demand:
        """Layer sizes in bytes, and the available wafers, from which mappings build layouts."""
        return demand_of(self.spec, self.wafer, self.options)

    def demand_with(self, experts: str | None) -> Demand:
        """Return the result of `demand` for a given placement of experts.

        The placement says whether an expert is stored on all columns of PEs, on a group of columns,
        or on its own columns. It affects the bytes that a column stores.

        Args:
            experts: Placement of experts; None for the placement in the request.
        """
        if experts is None:
            return self.demand
        return demand_of(self.spec, self.wafer, replace(self.options, experts=experts))

    @cached_property
    def fits_trees(self) -> bool:
        """True if the search also tunes the tree of each all-reduce for a layout.

        It then chooses the number of PE groups with the lowest cycle count. This requires
        ``timing`` and the rewrite `fitted_trees`.
        """
        return self.timing is not None and FITTED_TREES in dict(rewrites_of(self.spec, self.options))

    @cached_property
    def reserved_bytes(self) -> int:
        """Bytes per PE that no layout can use: code, stack, vendor runtime and task table."""
        return reserved_bytes(self.wafer, self.software)

    def layouts(self) -> list[Layout]:
        """Return the distinct layouts of the requested mapping, with the fewest regions first.

        A mapping such as ``auto`` tries the layouts of all other mappings. In a search for many
        users, it omits mappings that partition every op across the wafers, because a single pass
        then uses all wafers. They are kept if there are no other layouts.

        Raises:
            BadInput: The mapping has no layout for this model and mesh.
        """
        mapping = self.options.mapping
        mapping_strategy = strategy(mapping)
        other_mappings = [name for name in strategies() if name != mapping] if mapping_strategy.tries_others else []
        layouts = mapping_strategy.layouts(self.demand, [strategies()[name] for name in other_mappings])
        if not (distinct := list(dict.fromkeys(layouts))):
            raise BadInput(
                f"--mapping {mapping}: has no layout for this model and mesh; choose another of `wse mappings`"
            )
        if self.many_users and mapping_strategy.tries_others:
            return [layout for layout in distinct if not strategy(layout.mapping).spans_wafers] or distinct
        return distinct

    @property
    def request_tokens(self) -> int:
        """Tokens in a user's KV cache at the end of a request; the cache may have room for more."""
        return max(self.options.prompt_tokens) + (0 if self.timing is None else self.timing.new_tokens)

    @cached_property
    def cache_bytes_per_pe(self) -> float:
        """Bytes per PE that a user's request occupies in the KV cache, averaged over all PEs."""
        pes = self.options.wafers * self.wafer.mesh_rows * self.wafer.mesh_cols
        return cache_bytes(self.spec, self.request_tokens, ELEMENT_BYTES[self.options.activation_type]) / pes

    def products(self, layout: Layout) -> tuple[str, ...]:
        """Return the prefill matrix products to try on a layout; the last needs the least memory.

        MeshGEMM needs square regions of equal size. MeshGEMM with its own copy of the weights is
        tried only if requested, or if decode is not compiled, so that there is no other copy. The
        result is empty if no product is possible.
        """
        default_products = [p for p in PREFILL_PRODUCTS if p != MESH_GEMM_OWN or DECODE not in self.options.phases]
        products = default_products if self.options.prefill is None else [self.options.prefill]
        squares = layout.has_equal_squares(self.demand) and not unsupported_on_mesh(
            self.spec, replace(self.options, mapping=layout.mapping)
        )
        return tuple(product for product in products if squares or product == THIN_GEMM)

    def options_on(self, layout: Layout) -> Options:
        """Return the options of the request, completed with the settings of a layout.

        These settings are the mapping, the number of groups in all-reduces, and the placement of
        experts on columns of PEs.
        """
        groups = self.options.groups if layout.groups is None else layout.groups
        experts = self.options.experts if layout.experts is None else layout.experts
        return replace(self.options, mapping=layout.mapping, groups=groups, experts=experts)

    def smallest_choice(self, layout: Layout, prefill: str, tokens: int = 1) -> tuple[Options, Choice]:
        """Return the options and compiler settings that minimise the memory needed by a layout.

        Args:
            layout: Division of the wafers into regions.
            prefill: Matrix product used in prefill, one of ``PREFILL_PRODUCTS``.
            tokens: Length of each prompt, which forms a single chunk.
        """
        options = self.options_on(layout).with_prompts((tokens,) * self.options.batch)
        return options, self.choice(layout, prefill, tokens, self.smallest_head_chunk(layout))

    def smallest_head_chunk(self, layout: Layout) -> int:
        """Return the smallest head chunk that is worth trying, as vocabulary entries per PE column.

        The output head computes logits for one chunk of the vocabulary at a time. The logits of
        this chunk need about as much memory as a layer's gate and up projections, so smaller chunks
        would hardly reduce memory use.
        """
        spec, (_, cols) = self.spec, layout.region(self.demand)
        expert_features = 0 if spec.experts is None else spec.experts.active * spec.experts.ffn_size
        return max(SMALLEST_HEAD_CHUNK, (1 + spec.gated) * max(spec.ffn_size, expert_features) // cols)

    def allows(self, needed_bytes: float) -> bool:
        """Return whether a layout that needs ``needed_bytes`` on its fullest PE is acceptable.

        It is acceptable if the bytes fit, or if the request asks to report overflows instead of
        refusing them.
        """
        return needed_bytes <= self.wafer.sram_bytes_per_pe or self.options.capacity == REPORT

    def reduced_model(self, layout: Layout, prefill: str) -> ReducedModel:
        """Return the reduced model (one layer of each kind) of a layout, with one prompt token.

        Args:
            layout: Division of the wafers into regions.
            prefill: Matrix product used in prefill, one of ``PREFILL_PRODUCTS``.

        Raises:
            BadMesh: The regions do not fit on the mesh.
        """
        return reduced_model(self.spec, self.wafer, self.software, *self.smallest_choice(layout, prefill))

    def min_chunk_tokens(self, layout: Layout, prefill: str) -> int:
        """Return the shortest useful prompt chunk, in tokens: one token for each row of a region.

        With the matrix product thin GEMM, the result is 1, because every row has all tokens of the
        chunk.

        Args:
            layout: Division of the wafers into regions.
            prefill: Matrix product used in prefill, one of ``PREFILL_PRODUCTS``.
        """
        return 1 if prefill == THIN_GEMM else layout.region(self.demand)[0]

    def shortest_line(self, layout: Layout, prefill: str) -> int:
        """Return the number of PEs on the shortest row or column of any region of a layout.

        Args:
            layout: Division of the wafers into regions. A row of a region that spans several wafers
                includes its PEs on all of them.
            prefill: Matrix product used in prefill, one of ``PREFILL_PRODUCTS``.
        """
        plans = self.reduced_model(layout, prefill).state.plans
        return min(min(plan.rows, plan.cols * plan.span) for plan in plans)

    def widest_region(self, layout: Layout, prefill: str) -> int:
        """Return the number of columns of the widest region of a layout that contains attention.

        Args:
            layout: Division of the wafers into regions.
            prefill: Matrix product used in prefill, one of ``PREFILL_PRODUCTS``.
        """
        plans = self.reduced_model(layout, prefill).state.plans
        return max(plan.cols for plan in plans if any(parts.has_attention for _, parts in plan.layers.parts))

    def choice(self, layout: Layout, prefill: str, prefill_chunk: int, head_chunk: int) -> Choice:
        """Return the settings for compiling a layout, with the rewrites that all trials use.

        Args:
            layout: Division of the wafers into regions.
            prefill: Matrix product used in prefill, one of ``PREFILL_PRODUCTS``.
            prefill_chunk: Number of tokens per prompt chunk.
            head_chunk: Vocabulary entries per column for which logits are computed at a time.
        """
        return Choice(
            bands=layout.bands,
            per_band=layout.per_band,
            is_transposed=layout.is_transposed,
            mesh=layout.mesh,
            block_parts=layout.block_parts,
            prefill=prefill,
            prefill_chunk=prefill_chunk,
            head_chunk=head_chunk,
            rewrites=self.rewrites,
            verify_rewrites=self.verify_rewrites,
            attention_cols=self.attention_cols if self.narrows_attention(prefill) else 0,
        )

    def narrows_attention(self, prefill: str) -> bool:
        """Return whether attention may use only some of the columns of a region.

        It must use all columns in three cases: with MeshGEMM, in every schedule except
        ``optimized``, and if only layers are compiled, without embedding and output head.

        Args:
            prefill: Matrix product used in prefill, one of ``PREFILL_PRODUCTS``.
        """
        return prefill == THIN_GEMM and self.options.schedule == OPTIMIZED and self.options.scope == MODEL
