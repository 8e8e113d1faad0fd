"""The state that passes hand on: one frozen record whose fields fill up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import networkx as nx

from wse.arrays import I32
from wse.compiler.options import Choice, Options
from wse.compiler.symbolic import SymBuffer, SymPhase, SymTile
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.mixture import Mixture
from wse.program.program import Buffer, ColourUse, Program, Stage
from wse_mappings.cuts.expert_groups import ExpertGroups
from wse_mappings.cuts.head_groups import HeadGroups
from wse_mappings.cuts.latent_cut import LatentCut
from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange, Parts
from wse_mappings.cuts.output_copies import most_copies
from wse_mappings.result_cache import ResultCache
from wse_mappings.schedule import LineSchedule


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegionCut:
    """The division of all extents of a model over the region of one stage.

    The hidden vector is cut over rows (decode) or, on a square, over columns (prefill) by the same ``hidden`` index;
    the feed-forward and vocabulary extents and learned positions over columns; heads as HeadGroups says.
    """

    rows: int
    cols: int  # of all wafers of the stage
    hidden: I32  # [rows, d]
    ffn: I32  # [cols, f]
    vocab: I32  # [cols, V]
    positions: I32  # [cols, learned positions of a column]
    heads: HeadGroups  # of the rotated features alone where attention is latent
    queries: I32  # [cols, heads * F]: rows of the projections to queries, and to keys and values, of a column
    keys: I32
    experts: ExpertGroups | None
    mixture: Mixture | None
    shared: I32  # [cols, f], of what every token uses beside experts
    latent: LatentCut | None = None
    span: int = 1  # wafers
    hidden_group: int = 0  # at which ``hidden`` is cut; 0 where it is cut evenly
    attention: tuple[int, int]  # first column that attention works on, and their number

    @property
    def cols_of_wafer(self) -> int:
        """Columns on each wafer."""
        return self.cols // self.span

    @property
    def hidden_per_pe(self) -> int:
        """Hidden features on a PE."""
        return int(self.hidden.shape[1])

    @property
    def ffn_per_pe(self) -> int:
        """Feed-forward features on a PE."""
        return int(self.ffn.shape[1])

    def router_copies(self, outputs: int, most: int) -> int:
        """Return the number of column segments that each have all outputs of a router; 1 where ``most`` is 0.

        A column of several has no more than ``most``; where a region spans wafers there is one.
        """
        return most_copies(outputs, self.cols, most) if self.span == 1 else 1

    def feed_forward(self, kind: str) -> I32:
        """Return the features of a block for an op kind, ``[cols, f]``: the dense block, or the shared one beside
        experts.
        """
        return self.shared if kind.startswith("shared") else self.ffn

    @property
    def vocab_per_pe(self) -> int:
        """Vocabulary entries on a PE."""
        return int(self.vocab.shape[1])


class PatternCall(NamedTuple):
    """The call that creates a pattern; ``options`` are sorted by name."""

    make: Callable[..., LineSchedule]
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]

    def with_options(self, **options: Any) -> PatternCall:
        """Return the call with some options changed."""
        return self._replace(options=tuple(sorted({**dict(self.options), **options}.items())))

    def schedule(self, cache: ResultCache) -> LineSchedule:
        """Return the messages of the pattern, cached so that a request computes each pattern once."""
        return cache.of(_schedule, 2048)(self)


def _schedule(call: PatternCall) -> LineSchedule:
    return call.make(*call.args, **dict(call.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """A stage: its layers, its wafer and band, and the rows and columns of its region.

    It is on ``span`` wafers from that one on. ``corner`` is the row and column of its first PE where its region is
    listed; None where it stands in a band. One for ``experts`` holds those of all layers, on the PEs of the others.
    Of the first layer it has the parts from ``first_part`` on, of the last those before ``last_part``.
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
        """Its layers, and parts of them."""
        return LayerRange(self.first_layer, self.last_layer, self.first_part, self.last_part)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """The state of a compilation. A pass returns a copy with its fields filled in."""

    spec: ModelSpec
    wafer: WaferSpec
    software: SoftwareProfile
    options: Options
    choice: Choice
    graph: nx.DiGraph[str]
    last_pass: str = ""  # name of the last pass that the state has been through
    plans: tuple[StagePlan, ...] = ()  # partition
    cuts: tuple[RegionCut, ...] = ()  # shard: one a stage
    cuts_of_parts: dict[tuple[int, Parts], RegionCut] = field(
        default_factory=dict
    )  # shard: by stage, of its cut blocks
    weights: tuple[SymBuffer, ...] = ()  # shard: the buffers of all tiles
    tiles: tuple[SymTile, ...] = ()  # shard; none in a condensed model, of which no weights are held
    phases: tuple[SymPhase, ...] = ()  # lower_ops
    patterns: tuple[LineSchedule, ...] = ()  # lower_ops
    pattern_calls: tuple[PatternCall, ...] = ()  # lower_ops: of each pattern
    sym_buffers: tuple[SymBuffer, ...] = ()  # lower_ops
    further_bytes: tuple[int, ...] = ()  # by stage, of layers that a condensed model leaves out
    ids: SymBuffer | None = None  # lower_ops: the token ids of the embedding's stage, if there is one
    stages: tuple[Stage, ...] = ()  # place, allocate
    colour_uses: tuple[ColourUse, ...] = ()  # route
    repaints: tuple[I32, ...] = ()  # route
    buffers: tuple[Buffer, ...] = ()  # allocate
    addresses: dict[SymBuffer, int] | None = None  # allocate: byte address
    program: Program | None = None  # emit

    @property
    def mesh(self) -> tuple[int, int]:
        """Rows and columns of the mesh of each wafer that regions are placed on."""
        return self.choice.mesh or (self.wafer.mesh_rows, self.wafer.mesh_cols)

    def cut_of(self, stage: int, parts: Parts) -> RegionCut:
        """Return the division of extents over the region of a stage, for some parts of its feed-forward block."""
        return self.cuts_of_parts[stage, parts] if parts.cuts_block else self.cuts[stage]

    @property
    def has_expert_stage(self) -> bool:
        """True if experts have a stage of their own on the PEs of the other stages."""
        return any(plan.experts for plan in self.plans)
