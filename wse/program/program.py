"""Program: the output of the compiler, which all three backends read.

A Program consists of frozen arrays, and of names that are only meant for people. Nothing is looked
up by name while a token runs. ``Buffer.address`` counts bytes from the start of SRAM. The addresses
of tiles count elements, as operands of steps do (`wse.program.steps`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wse.arrays import I32, I64
from wse.program.digest import digest_of
from wse.program.isa.operands import VIEWS
from wse.program.mixture import Mixture
from wse.program.routing import EVEN, RoutingDistribution
from wse.program.stage import Buffer, ColourUse, Stage, UserBytes
from wse.program.steps import Phase, Slots
from wse.program.tiles import Tile
from wse_mappings.cuts.cache_balance import CacheBalance
from wse_mappings.schedule import LineSchedule

ORDINALS = "ordinals"
"""Virtual tensor with the values 1, 2, 3 ...: its tiles tell a kernel which indices a PE stores."""

FREQUENCIES, WINDOW_FREQUENCIES = "rotary_frequencies", "window_rotary_frequencies"
"""Names of the tables of rotary frequencies: of `ModelSpec.rope`, and of ``window_rope``."""

TIMES = "@"
"""Separator in tensor names ``MATRIX@VECTOR``: their product, which is computed before a run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """Output of the compiler: a model placed on wafers and lowered to steps.

    Attributes:
        model_name, mapping_name, wafer_name: Names for people.
        wafer_rows, wafer_cols, wafers: Mesh of each wafer, and the number of wafers.
        is_transposed: True if the mesh of the Program is transposed: its rows are columns of the
            wafer.
        sram_bytes_per_pe: Size of a PE's SRAM, even if the stages need more.
        prefill_name: Distributed matrix product of prefill: ``mesh-gemm``,
            ``mesh-gemm-own-weights`` or ``thin-gemm``.
        element_types: Element type of each view of SRAM, in the order of
            ``wse.program.isa.operands.VIEWS``.
        weight_type: Storage of the weights of linear layers: an element type, or the name of a
            format of quantised weights.
        context: Maximum number of tokens in a user's cache.
        batch: Number of users. One decode pass generates a token for each user.
        vocab_size: Number of logits of the model.
        stages, patterns, phases, buffers, tiles: See their types. The phases are the prefill chunks
            in order, user by user; then decode; then, if requested, one verification pass for each
            user. Prefill or decode may be missing if layers are timed alone.
        op_names, op_kinds, op_layers, op_stages: Name, kind, layer and stage of each op, in graph
            order. The layer is -1 for ops outside the layers.
        op_edges: int32 ``[edges, 2]``: pairs of ops in which the second reads the result of the
            first.
        colour_uses: Colours of each stage and pattern.
        ids_address: Address of the users' next token ids in the stage with the embedding, in
            float32 elements. The ids of a verification pass follow. -1 if the Program has only
            layers (no embedding and head).
        root_row: Row of the head's region where the logits are summed.
        logits_out: True if logits are sent to the host.
        sampling: ``wafer`` (arg max on PEs) or ``host``.
        padding_fraction: Fraction of the weight elements in SRAM that is padding.
        mixtures: Assignment of experts to columns in each stage; None for a stage without experts.
        routing: How tokens are assumed to select experts when the Program is timed but not
            executed.
        expert_order: int32 ``[layers, experts]``: the expert at each position of a layer. A mixture
            assigns positions to columns. If the array is empty, the expert at position p is p.
    """

    model_name: str
    mapping_name: str
    wafer_name: str
    wafer_rows: int
    wafer_cols: int
    wafers: int
    is_transposed: bool
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
    routing: RoutingDistribution = field(default=EVEN, compare=False)
    expert_order: I32 = field(default_factory=lambda: np.zeros((0, 0), np.int32), compare=False)

    @property
    def prefix_tokens(self) -> int:
        """Tokens at the start of every prompt that all users share and that are already in the KV cache."""
        return self.prefill[0].prefix_tokens if self.prefill else 0

    @property
    def prefill(self) -> tuple[Phase, ...]:
        """Phases of the prompt chunks, in order."""
        return tuple(phase for phase in self.phases if phase.name == "prefill")

    @property
    def decode(self) -> Phase:
        """Phase that decodes: it generates one token for each user."""
        return self.phases[self.decode_index]

    @property
    def decode_index(self) -> int:
        """Index of the decode phase in ``phases``."""
        return len(self.prefill)

    @property
    def expert_stages(self) -> dict[int, int]:
        """Stage that stores the experts of each layer, by index of the layer."""
        ops = zip(self.op_kinds, self.op_layers, self.op_stages, strict=True)
        return {layer: stage for kind, layer, stage in ops if kind == "experts"}

    @property
    def verify(self) -> tuple[Phase, ...]:
        """Verification passes over several new tokens, one per user; empty if not requested."""
        return tuple(phase for phase in self.phases if phase.name == "verify")

    @property
    def verify_tokens(self) -> int:
        """Number of tokens per verification pass; 0 if the Program has no such passes."""
        return self.verify[0].tokens if self.verify else 0

    def host_places(self, phase: Phase) -> range:
        """Return where the host stores the token ids and logits of a phase.

        The result consists of indices into arrays of the host, which have one element per user,
        followed by one element per token of a verification pass.
        """
        if phase.name == "verify":
            return range(self.batch, self.batch + phase.tokens)
        return range(self.batch) if phase.user < 0 else range(phase.user, phase.user + 1)

    @property
    def fits(self) -> bool:
        """True if all weights and buffers fit into the SRAM of their PEs, as required for a run."""
        return all(stage.sram_top_byte <= self.sram_bytes_per_pe for stage in self.stages)

    def cache_slots(self, tokens: int) -> Slots:
        """Return how many cache slots each stage uses if a user's cache contains ``tokens`` tokens.

        A cache slot stores the keys and values of one token on a row of PEs. The number is for the
        row with the most slots in use. A stage is a part of the model, stored on one region of PEs.
        """
        slots_by_rows = {
            rows: CacheBalance.slots_after(tokens, rows) for rows in {stage.rect.rows for stage in self.stages}
        }
        return tuple(slots_by_rows[stage.rect.rows] for stage in self.stages)

    def shares_pes(self, first: int, second: int) -> bool:
        """Return True if two stages (regions with their layers) are stored on the same PEs.

        This is the case if they have the same rectangle and at least one wafer in common.
        """
        a, b = self.stages[first], self.stages[second]
        return a.rect == b.rect and bool(set(a.wafers) & set(b.wafers))

    def stages_above(self, stage: int) -> tuple[int, ...]:
        """Return the stages on the same PEs as a given stage, but at higher SRAM addresses.

        A stage is a part of the model, stored on one region of PEs. The result consists of indices.
        """
        top = self.stages[stage].sram_top_byte
        higher = (i for i, other_stage in enumerate(self.stages) if i != stage and other_stage.sram_base_byte >= top)
        return tuple(i for i in higher if self.shares_pes(stage, i))

    def stages_below(self, stage: int) -> tuple[int, ...]:
        """Return the stages on the same PEs as a given stage, but at lower SRAM addresses.

        A stage is a part of the model, stored on one region of PEs. The result consists of indices.
        """
        base = self.stages[stage].sram_base_byte
        lower = (i for i, other_stage in enumerate(self.stages) if i != stage and other_stage.sram_top_byte <= base)
        return tuple(i for i in lower if self.shares_pes(i, stage))

    def used_bytes(self, stage: int) -> int:
        """Return how many bytes of SRAM are in use on a PE of a stage (a region with its layers).

        If other stages are stored on the same PE, their bytes are included.
        """
        higher = [self.stages[i] for i in self.stages_above(stage)]
        return self.stages[stage].sram_top_byte + sum(
            stage_above.sram_top_byte - stage_above.sram_base_byte for stage_above in higher
        )

    def user_bytes(self) -> list[UserBytes]:
        """Return how many bytes on a PE depend on the number of users, for each stage.

        A stage is a part of the model, stored on one region of PEs.
        """
        sizes = {use: [0] * len(self.stages) for use in ("kv", "state")}
        for buffer in self.buffers:
            if buffer.use in sizes:
                sizes[buffer.use][buffer.stage] += buffer.bytes
        return [
            UserBytes(kv, state, max(0, kv + state + self.sram_bytes_per_pe - self.used_bytes(i)))
            for i, (kv, state) in enumerate(zip(sizes["kv"], sizes["state"], strict=True))
        ]

    def chosen_wafers(self, stage: int, columns: I64) -> frozenset[int]:
        """Return the wafers of a stage that store at least one expert selected for a token.

        A stage is a region of PEs that may span several wafers.

        Args:
            stage: Index of the stage.
            columns: int64 ``[cols]``, for each column of the region, the number of (token, expert)
                pairs that it must process.
        """
        pairs = columns.reshape(self.stages[stage].span, -1).sum(axis=1)
        return frozenset(wafer for wafer, count in zip(self.stages[stage].wafers, pairs.tolist(), strict=True) if count)

    def element_type(self, view: str) -> str:
        """Return the element type of a view of SRAM, such as ``float16`` for the view ``act``."""
        return self.element_types[VIEWS.index(view)]

    def digest(self) -> str:
        """Return a SHA-256 hash in hex of the Program.

        Fields that are excluded from comparisons, such as the assumed routing, are not included.
        """
        return digest_of(self)
