"""Compilation state: a frozen record whose fields are filled in by the passes in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from wse.arrays import I32
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.symbolic import SymBuffer, SymPhase, SymTile
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.mixture import Mixture
from wse.program.program import Program
from wse.program.stage import Buffer, ColourUse, Stage
from wse_mappings.cuts.expert_groups import ExpertGroups
from wse_mappings.cuts.head_groups import HeadGroups
from wse_mappings.cuts.latent_cut import LatentCut
from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange, Parts
from wse_mappings.cuts.linear_cut import LinearCut
from wse_mappings.cuts.split import max_copies
from wse_mappings.result_cache import ResultCache
from wse_mappings.schedule import LineSchedule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegionCut:
    """Partitioning of all dimensions of a model across the rows and columns of one stage's region.

    An index array has one row of indices for each row, or each column, of the region. It lists the
    elements of the dimension that are stored there, padded to equal length with -1. The hidden
    vector is partitioned across rows in decode. On a square region, prefill with MeshGEMM
    partitions it across columns using the same array.

    Attributes:
        rows: Rows of the region.
        cols: Total number of columns of the region, on all wafers of the stage.
        hidden: int32 ``[rows, d]``: hidden features.
        ffn: int32 ``[cols, f]``: features of a dense feed-forward block.
        vocab: int32 ``[cols, V]``: vocabulary entries.
        positions: int32 ``[cols, n]``: learned positions.
        heads: Assignment of heads and their features to columns. With latent attention, it covers
            only the rotated features.
        queries: int32 ``[cols, heads * F]``: rows of the projection to queries.
        keys: int32 ``[cols, heads * F]``: rows of the projections to keys and to values.
        experts: Assignment of experts to columns; None if there are no experts.
        mixture: The experts of each column and the number of experts per token; None if there are
            no experts.
        shared: int32 ``[cols, f]``: features of the shared block, which every token uses in
            addition to its experts.
        latent: Division of latent attention; None for other attention.
        linear: Division of linear attention; None if no layer has it.
        span: Number of wafers that the region spans.
        hidden_group: Size of the quantisation groups whose boundaries divide ``hidden``; 0 if it is
            divided evenly.
        attention: First column that attention uses, and the number of columns.
        expert_order: int32 ``[experts]``: the expert at each position, if the division is for one
            layer; None if the expert at position p is p.
        window: Partitioning for layers with a sliding window, if their heads differ from those of
            other layers; otherwise None.
    """

    rows: int
    cols: int
    hidden: I32
    ffn: I32
    vocab: I32
    positions: I32
    heads: HeadGroups
    queries: I32
    keys: I32
    experts: ExpertGroups | None
    mixture: Mixture | None
    shared: I32
    latent: LatentCut | None = None
    linear: LinearCut | None = None
    span: int = 1
    hidden_group: int = 0
    attention: tuple[int, int]
    expert_order: I32 | None = None
    window: RegionCut | None = None

    @property
    def cols_of_wafer(self) -> int:
        """Number of columns of PEs that the region has on each wafer."""
        return self.cols // self.span

    @property
    def hidden_per_pe(self) -> int:
        """Number of hidden features per PE, including padding."""
        return int(self.hidden.shape[1])

    def router_copies(self, outputs: int, max_outputs: int) -> int:
        """Return the number of column segments that each compute all outputs of an expert router.

        With several segments, the outputs need not travel along whole rows of PEs.

        Args:
            outputs: Number of router outputs, one per expert.
            max_outputs: Maximum number of outputs per column if there are several segments. 0
                requests a single segment.

        Returns:
            The number of segments; 1 for a region that spans several wafers.
        """
        return max_copies(outputs, self.cols, max_outputs) if self.span == 1 else 1

    def feed_forward(self, kind: str) -> I32:
        """Return which features of a feed-forward block each column stores, int32 ``[cols, f]``.

        Args:
            kind: Kind of op. Names that start with ``shared`` select the block of shared experts;
                other names select the dense block.
        """
        return self.shared if kind.startswith("shared") else self.ffn

    @property
    def vocab_per_pe(self) -> int:
        """Number of vocabulary entries per PE, including padding."""
        return int(self.vocab.shape[1])


class PatternCall(NamedTuple):
    """Stored function call that creates the messages of a communication pattern.

    Rewrites use it to create the same pattern with different options.

    Attributes:
        make: The function, such as `k_tree`.
        args: Positional arguments of the call.
        options: Keyword arguments of the call as (name, value) pairs, sorted by name.
    """

    make: Callable[..., LineSchedule]
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]

    def with_options(self, **options: Any) -> PatternCall:
        """Return a copy of the call with some keyword arguments changed or added."""
        return self._replace(options=tuple(sorted({**dict(self.options), **options}.items())))

    def schedule(self, cache: ResultCache) -> LineSchedule:
        """Return the messages of the pattern, which are created on the first call and cached."""
        return cache.of(_schedule, 2048)(self)


def _schedule(call: PatternCall) -> LineSchedule:
    """Create the messages of a communication pattern by executing its call.

    The function is separate because `PatternCall.schedule` caches its results.
    """
    return call.make(*call.args, **dict(call.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """The plan of one stage: the layers that it stores, and the wafers and size of its region.

    A region is a rectangle of PEs.

    Attributes:
        wafer: First wafer.
        band: Index of the band that contains the region. A band is a strip of rows as wide as the
            mesh.
        rows, cols: Size of the region on each wafer, in PEs.
        first_layer, last_layer: First layer, and one past the last.
        has_embedding, has_head: Whether the stage contains the embedding table and the output head.
        span: Number of consecutive wafers, starting with ``wafer``.
        experts: Whether the stage contains the experts of all layers. If so, it uses the same PEs
            as the other stages.
        corner: Row and column of the first PE if the mapping file lists the region; None if the
            region is part of a band.
        first_part: Index of the first part of the first layer. Part 0 of a layer is attention;
            parts 1 to 8 are slices of its feed-forward block.
        last_part: One past the last part of the last layer.
    """

    wafer: int
    band: int
    rows: int
    cols: int
    first_layer: int
    last_layer: int
    has_embedding: bool
    has_head: bool
    span: int = 1
    experts: bool = False
    corner: tuple[int, int] | None = None
    first_part: int = 0
    last_part: int = LAYER_PARTS

    @property
    def layers(self) -> LayerRange:
        """Layers of the stage. The first and the last layer may be incomplete."""
        return LayerRange(self.first_layer, self.last_layer, self.first_part, self.last_part)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """Compilation state: the inputs, and the results of the passes so far.

    A pass returns a copy with its own fields filled in. The comment on each field names the pass
    that fills it in.
    """

    spec: ModelSpec
    wafer: WaferSpec
    software: SoftwareProfile
    options: Options
    choice: Choice
    graph: nx.DiGraph[str]
    last_pass: str = ""  # name of the last pass that has run
    plans: tuple[StagePlan, ...] = ()  # partition
    cuts: tuple[RegionCut, ...] = ()  # shard: one per stage
    cuts_of_parts: dict[tuple[int, Parts], RegionCut] = field(
        default_factory=dict
    )  # shard: by stage and parts, for stages with some parts of a feed-forward block
    expert_order: I32 = field(default_factory=lambda: np.zeros((0, 0), np.int32))  # shard: as in the Program
    weights: tuple[SymBuffer, ...] = ()  # shard: the buffers of all tiles
    tiles: tuple[SymTile, ...] = ()  # shard; empty for a reduced model, whose weights are not stored
    phases: tuple[SymPhase, ...] = ()  # lower_ops
    patterns: tuple[LineSchedule, ...] = ()  # lower_ops
    pattern_calls: tuple[PatternCall, ...] = ()  # lower_ops: the call that created each pattern
    sym_buffers: tuple[SymBuffer, ...] = ()  # lower_ops
    further_bytes: tuple[int, ...] = ()  # by stage: bytes of the layers that a reduced model omits
    ids: SymBuffer | None = None  # lower_ops: the token ids on the stage with the embedding, if there is one
    stages: tuple[Stage, ...] = ()  # place, allocate
    colour_uses: tuple[ColourUse, ...] = ()  # route
    route_rewrites: tuple[I32, ...] = ()  # route: rewrites of routes by each step, per phase
    buffers: tuple[Buffer, ...] = ()  # allocate
    addresses: dict[SymBuffer, int] | None = None  # allocate: byte address
    program: Program | None = None  # emit

    @property
    def mesh(self) -> tuple[int, int]:
        """Rows and columns of the part of each wafer's mesh on which regions are placed.

        A search may choose a part that is smaller than the mesh.
        """
        return self.choice.mesh or (self.wafer.mesh_rows, self.wafer.mesh_cols)

    def cut_of(self, stage: int, parts: Parts) -> RegionCut:
        """Return how the dimensions of the model are partitioned across a stage's region of PEs.

        Args:
            stage: Index of the stage.
            parts: The parts of a layer for which the partitioning is needed. If they include only
                some features of a feed-forward block, the result differs from that for the whole
                block.
        """
        return self.cuts_of_parts[stage, parts] if parts.cuts_block else self.cuts[stage]

    @property
    def has_expert_stage(self) -> bool:
        """True if the experts of all layers form a separate stage on the PEs of other stages."""
        return any(plan.experts for plan in self.plans)
