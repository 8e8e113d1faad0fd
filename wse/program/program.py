"""The Program: what the compiler emits and what execution, the fabric model and the wavelet model read.

Frozen arrays and names for people; nothing here is looked up by name while a token runs. Of addresses only
``Buffer.address`` counts bytes from the start of SRAM; those of tiles count elements as operands do
(`wse.program.steps`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from wse.arrays import I32, I64
from wse.program.isa.operands import VIEWS
from wse.program.mixture import Mixture
from wse.program.phase import Phase
from wse.program.steps import Slots
from wse.program.tiles import Tile
from wse_mappings.cuts.cache_balance import CacheBalance
from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange
from wse_mappings.mesh.placement import Rect
from wse_mappings.schedule import LineSchedule

ORDINALS = "ordinals"
"""The tensor whose values are 1, 2, 3 and so on: a tile of it tells a kernel the indices that the tile was cut with."""

TIMES = "@"
"""Stands in the name of a tensor between a matrix and a vector of its layer: their product, computed before a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The layers that one region stores: a rectangle on ``wafer``, and the same on each of ``span`` wafers from there.

    The rectangles of several wafers stand side by side as one region; columns are counted through them.
    """

    wafer: int
    rect: Rect
    first_layer: int
    last_layer: int  # one past the last
    has_embedding: bool
    has_head: bool
    sram_base_byte: int  # first byte after code, stack and what the runtime keeps
    sram_top_byte: int  # one past the last byte in use; past the end of SRAM when the stage does not fit
    span: int = 1
    first_part: int = 0  # of the first layer, as `wse_mappings.cuts.layer_parts` counts them
    last_part: int = LAYER_PARTS  # of the last layer, one past the last
    attention: tuple[int, int] = (0, 0)  # first column of the region that attention works on, and their number

    @property
    def cols(self) -> int:
        """Columns of the region, on all of its wafers."""
        return self.rect.cols * self.span

    @property
    def wafers(self) -> range:
        """The wafers that it is on."""
        return range(self.wafer, self.wafer + self.span)

    @property
    def has_attention(self) -> bool:
        """True if it holds attention of any layer."""
        layers = LayerRange(self.first_layer, self.last_layer, self.first_part, self.last_part)
        return any(parts.has_attention for _, parts in layers.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A named stretch of every PE's SRAM in one stage."""

    stage: int
    name: str
    use: str  # code, weights, kv, activations or buffers
    address: int
    bytes: int
    element: str  # element type
    live: tuple[tuple[int, int, int], ...]  # phase, first and last step; empty: always live


@dataclass(frozen=True, slots=True, kw_only=True)
class ColourUse:
    """The colours ``first`` to ``first + colours - 1`` of one pattern in a stage; repainted ones are shared in turn."""

    stage: int
    pattern: str
    axis: int
    first: int
    colours: int
    repainted: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """A model placed on wafers and lowered to steps.

    Attributes:
        model_name, mapping_name, wafer_name: For people.
        wafer_rows, wafer_cols, wafers: The mesh of each wafer, and their number.
        turned: Whether rows of the mesh, as the Program counts them, are columns of the wafer.
        sram_bytes_per_pe: What a PE has, whether or not the stages need more.
        prefill_name: The distributed product of prefill: ``mesh-gemm``, ``mesh-gemm-own-weights`` or ``thin-gemm``.
        element_types: Element type of each view, in the order of ``wse.program.isa.operands.VIEWS``.
        weight_type: How the weights of linear layers are held: an element type or a coding.
        context: Tokens that a user's cache has room for.
        batch: Users, whose tokens are decoded at once.
        vocab_size: Logits of the model.
        stages, patterns, phases, buffers, tiles: See their types. Phases: prefill chunks in order, user by user,
            then decode, then, where requested, a pass over several tokens of each user; prefill or decode may be
            missing where layers are timed alone.
        op_names, op_kinds, op_layers, op_stages: Ops in graph order; layer -1 for those outside the layers.
        op_edges: int32 ``[edges, 2]``.
        colour_uses: Colours by stage and pattern.
        ids_address: Element address (float32) of the users' next token ids in the embedding's stage, and behind them
            those of a pass over several tokens; -1 for layers alone.
        root_row: Row of the head's region where logits are summed.
        logits_out: Whether logits go to the host.
        sampling: ``wafer`` (arg max on PEs) or ``host``.
        padding_fraction: Share of the weight elements in SRAM that are padding.
        mixtures: By stage, where experts are, if there are any.
    """

    model_name: str
    mapping_name: str
    wafer_name: str
    wafer_rows: int
    wafer_cols: int
    wafers: int
    turned: bool
    sram_bytes_per_pe: int
    prefill_name: str
    element_types: tuple[str, ...]
    weight_type: str
    context: int
    batch: int
    vocab_size: int
    stages: tuple[Stage, ...]
    patterns: tuple[LineSchedule, ...]
    phases: tuple[Phase, ...]
    buffers: tuple[Buffer, ...]
    tiles: tuple[Tile, ...]
    op_names: tuple[str, ...]
    op_kinds: tuple[str, ...]
    op_layers: tuple[int, ...]
    op_stages: tuple[int, ...]
    op_edges: I32
    colour_uses: tuple[ColourUse, ...]
    ids_address: int
    root_row: int
    logits_out: bool
    sampling: str
    padding_fraction: float
    mixtures: tuple[Mixture | None, ...]

    @property
    def prefill(self) -> tuple[Phase, ...]:
        """The chunks of the prompts in order."""
        return tuple(phase for phase in self.phases if phase.name == "prefill")

    @property
    def decode(self) -> Phase:
        """The phase of one generated token of each user."""
        return self.phases[self.decode_index]

    @property
    def decode_index(self) -> int:
        """The place of ``decode`` among the phases."""
        return len(self.prefill)

    @property
    def verify(self) -> tuple[Phase, ...]:
        """The passes over several new tokens of one user, by user; none where they were not requested."""
        return tuple(phase for phase in self.phases if phase.name == "verify")

    @property
    def verify_tokens(self) -> int:
        """Tokens of such a pass; 0 where there is none."""
        return self.verify[0].tokens if self.verify else 0

    def host_places(self, phase: Phase) -> range:
        """Places at the host of the ids and logits of a phase: those of users, then of a pass over several tokens."""
        if phase.name == "verify":
            return range(self.batch, self.batch + phase.tokens)
        return range(self.batch) if phase.user < 0 else range(phase.user, phase.user + 1)

    @property
    def fits(self) -> bool:
        """True if every stage fits the SRAM of its PEs. Only such a Program can be executed."""
        return all(stage.sram_top_byte <= self.sram_bytes_per_pe for stage in self.stages)

    def cache_slots(self, tokens: int) -> Slots:
        """Cache slots in use on the fullest row of each stage when a user's cache stores so many tokens."""
        of_rows = {rows: CacheBalance.slots_after(tokens, rows) for rows in {stage.rect.rows for stage in self.stages}}
        return tuple(of_rows[stage.rect.rows] for stage in self.stages)

    def shares_pes(self, first: int, second: int) -> bool:
        """Return whether two stages are on the same PEs of some wafer."""
        a, b = self.stages[first], self.stages[second]
        return a.rect == b.rect and bool(set(a.wafers) & set(b.wafers))

    def stages_above(self, stage: int) -> tuple[int, ...]:
        """Stages in the same SRAM at higher addresses."""
        top = self.stages[stage].sram_top_byte
        higher = (i for i, other in enumerate(self.stages) if i != stage and other.sram_base_byte >= top)
        return tuple(i for i in higher if self.shares_pes(stage, i))

    def stages_below(self, stage: int) -> tuple[int, ...]:
        """Stages in the same SRAM at lower addresses."""
        base = self.stages[stage].sram_base_byte
        lower = (i for i, other in enumerate(self.stages) if i != stage and other.sram_top_byte <= base)
        return tuple(i for i in lower if self.shares_pes(i, stage))

    def used_bytes(self, stage: int) -> int:
        """Return the bytes in use on a PE of a stage, on its own and by those above it in the same SRAM."""
        higher = [self.stages[i] for i in self.stages_above(stage)]
        return self.stages[stage].sram_top_byte + sum(
            stage_above.sram_top_byte - stage_above.sram_base_byte for stage_above in higher
        )

    def cache_bytes(self) -> list[tuple[int, int]]:
        """KV cache on a PE by stage: (bytes that it takes, bytes that it could take if all free SRAM were its own)."""
        cached = [0] * len(self.stages)
        for buffer in self.buffers:
            cached[buffer.stage] += buffer.bytes if buffer.use == "kv" else 0
        return [
            (stage_cache, stage_cache + self.sram_bytes_per_pe - self.used_bytes(i))
            for i, stage_cache in enumerate(cached)
        ]

    def chosen_wafers(self, stage: int, columns: I64) -> frozenset[int]:
        """The wafers of a stage to which pairs of tokens and experts come: int64 ``[cols]`` pairs on each column."""
        pairs = columns.reshape(self.stages[stage].span, -1).sum(axis=1)
        return frozenset(wafer for wafer, count in zip(self.stages[stage].wafers, pairs.tolist(), strict=True) if count)

    def element_type(self, view: str) -> str:
        """Element type of a view."""
        return self.element_types[VIEWS.index(view)]

    def digest(self) -> str:
        """sha256 over every array, number and name of the Program, as hex."""
        digest = hashlib.sha256()
        _feed(digest, self)
        return digest.hexdigest()


def _feed(digest: hashlib._Hash, value: Any) -> None:
    """Add a value and all that it holds, each with its kind and size so that no two Programs read the same."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        digest.update(type(value).__name__.encode())
        for item in fields(value):
            _feed(digest, getattr(value, item.name))
    elif isinstance(value, tuple):
        digest.update(f"({len(value)}".encode())
        for item in value:
            _feed(digest, item)
    else:
        digest.update(f"{value!r};".encode())
