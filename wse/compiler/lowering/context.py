"""Context of a lowering: the model, the cut, the buffers by name, the patterns, and the current stage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from wse.compiler.lowering.buffers import Buffers, Patterns
from wse.compiler.lowering.builder import PhaseBuilder
from wse.compiler.options import DECODE, MESH_GEMM_OWN, ROUTER_COPIES, SENT_CHOICE, VERIFY, Choice, Options
from wse.compiler.passes.shard import prefill_tile_name
from wse.compiler.state import RegionCut, StagePlan
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber
from wse.hardware.spec import WaferSpec
from wse.models.spec import ModelSpec
from wse.program.isa.operands import PICO
from wse.program.isa.pe_costs import PeCosts
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.cuts.layer_parts import ATTENTION, Parts
from wse_mappings.cuts.split import ceil_div
from wse_mappings.patterns.k_tree import EQUAL_GROUPS, FEWEST_RELAYS, equal_group_count
from wse_mappings.patterns.multicast import diagonal_multicast


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTokens:
    """The tokens that steps inside a loop over users or tokens process. ``turns``: one token per iteration."""

    tokens: int
    turns: bool

    def at(self, tokens: SymBuffer | SymAddress, elements: int | SymNumber) -> SymAddress:
        """Return the address of these tokens in a buffer of all ``tokens`` with ``elements`` per token."""
        at = SymAddress(buffer=tokens) if isinstance(tokens, SymBuffer) else tokens
        stride = SymNumber(fixed=elements) if isinstance(elements, int) else elements
        return replace(at, per_round=stride.fixed, per_slot_round=stride.per_slot) if self.turns else at


@dataclass(kw_only=True)
class Context:
    """The lowering context of one phase.

    ``tokens`` are those that a PE works on: all of the chunk when activations are replicated down the rows, its row's
    share when they lie on the mesh; in decode one of each user. ``costs`` are those of a PE. ``name`` is that of the
    phase. ``parts`` are those of a layer whose ops are lowered. ``stream`` is where the residual stream stands.
    """

    spec: ModelSpec
    wafer: WaferSpec
    costs: PeCosts
    options: Options
    choice: Choice
    cuts: tuple[RegionCut, ...]
    cuts_of_parts: dict[tuple[int, Parts], RegionCut]
    plans: tuple[StagePlan, ...]
    builder: PhaseBuilder
    buffers: Buffers
    patterns: Patterns
    on_mesh: bool
    name: str
    chunk: int
    user: int
    cached: int
    last: bool
    parts: Parts = ATTENTION
    tokens: int = field(init=False)
    stream: SymAddress = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = ceil_div(self.chunk, self.cut.rows) if self.on_mesh else self.chunk
        self.stream = SymAddress(buffer=self.temp("x", self.tokens * self.cut.hidden_per_pe, "act"))

    @property
    def decodes(self) -> bool:
        """True if the phase decodes one token of each user."""
        return self.name == DECODE

    @property
    def verifies(self) -> bool:
        """True if the phase is a pass over several new tokens of one user, each of which is followed by an id."""
        return self.name == VERIFY

    @property
    def cut(self) -> RegionCut:
        """The division of extents over the current stage's region, for the current parts of a feed-forward block."""
        stage = self.builder.stage
        return self.cuts_of_parts.get((stage, self.parts)) or self.cuts[stage]

    @property
    def heads(self) -> tuple[int, int, int, int]:
        """Query heads, key heads, queries per key head and features per head on a column."""
        kv_heads, queries_per_kv = self.cut.heads.kv_heads_per_col, self.spec.queries_per_kv // self.cut.heads.copies
        return kv_heads * queries_per_kv, kv_heads, queries_per_kv, self.cut.heads.features_per_head

    @property
    def rotated_size(self) -> int:
        """Features of a head on a column that are rotated; they come first."""
        return self.cut.heads.rotated

    @property
    def rewrites(self) -> dict[str, int]:
        """The rewrites of the phase, each with its setting."""
        of_pass = self.choice.verify_rewrites if self.verifies else None
        return dict(self.choice.rewrites if of_pass is None else of_pass)

    def sends_choice(self, layer: int) -> bool:
        """Return whether the parts of a split block use the choice of experts that the first part made.

        They do where all regions with parts of blocks have as many rows: each sends the choice along its own.
        """
        rows = {(self.cuts[stage].rows, self.cuts[stage].hidden_group) for stage, _ in self.cuts_of_parts}
        one_token = self.tokens == 1 and not self.on_mesh
        return one_token and len(rows) == 1 and self.spec.layers[layer].experts and SENT_CHOICE in self.rewrites

    @property
    def router_columns(self) -> int:
        """Columns of a segment that has all outputs of a router: all columns unless there are several copies."""
        assert self.spec.experts is not None
        return self.cut.cols // self.cut.router_copies(self.spec.experts.count, self.choice.setting_of(ROUTER_COPIES))

    @property
    def own_weights(self) -> bool:
        """True if the phase is on the mesh with a copy of the weights."""
        return self.on_mesh and self.choice.prefill == MESH_GEMM_OWN

    @property
    def scale_pico(self) -> int:
        """The factor of attention scores, in units of 1e-12."""
        return round(PICO * self.spec.attention_scale)

    def temp(self, name: str, elements: int, view: str, use: str = "activations") -> SymBuffer:
        """Return a buffer of the current stage that is live where its value is needed."""
        return self.buffers.get(self.builder.stage, name, elements, view, use)

    @property
    def normed_hidden(self) -> SymBuffer:
        """The normalised hidden vectors that a block reads."""
        return self.temp("normed", self.tokens * self.cut.hidden_per_pe, "act")

    @property
    def stream_before_block(self) -> SymAddress:
        """The residual stream that all parts of a split block read, followed by room for the stream that they add to.

        Where the choice of experts is sent, it is normalised.
        """
        return SymAddress(buffer=self.temp("streams", 2 * self.tokens * self.cut.hidden_per_pe, "act"))

    @property
    def stream_of_parts(self) -> SymAddress:
        """The residual stream that the parts of a split block add to, until the last part is done."""
        return replace(self.stream_before_block, offset=self.tokens * self.cut.hidden_per_pe)

    @property
    def choice_of_parts(self) -> tuple[SymAddress, SymAddress]:
        """Ids and weights of the experts that the first part of a split block chose, after both vectors."""
        assert self.spec.experts is not None
        vectors, chosen = 2 * self.tokens * self.cut.hidden_per_pe, self.tokens * self.spec.experts.active
        buffer = self.temp("streams", vectors + 2 * chosen, "act")
        return SymAddress(buffer=buffer, offset=vectors), SymAddress(buffer=buffer, offset=vectors + chosen)

    def prompt_ids(self, elements: int) -> SymAddress:
        """Return the token ids of a chunk.

        They may share memory with the next id of the last user, whose prompt comes last.
        """
        before = self.options.batch - 1
        return SymAddress(buffer=self._ids(before + elements), offset=before)

    def next_ids(self) -> SymAddress:
        """Return the token ids that this phase reads or writes: those of the user, or of all users in decode.

        The tokens of a pass over several of one user stand behind the ids of all users, and so do those that follow.
        """
        batch = self.options.batch
        if self.verifies:
            return SymAddress(buffer=self._ids(batch + self.chunk), offset=batch)
        return SymAddress(buffer=self._ids(batch), per_round=1 if batch > 1 and not self.decodes else 0)

    def _ids(self, elements: int) -> SymBuffer:
        return self.buffers.get(self.builder.stage, "token_ids", elements, "f32", "buffers", permanent=True)

    def cache(self, name: str, elements: int) -> SymAddress:
        """Return a key or value cache of the current stage: that of the user, or of the loop's user."""
        batch = self.options.batch
        buffer = self.buffers.get(self.builder.stage, name, batch * elements, "act", "kv", permanent=True)
        return SymAddress(buffer=buffer, per_round=elements if batch > 1 else 0)

    @contextmanager
    def over_users(self) -> Iterator[UserTokens]:
        """Run the steps added inside with the counters of one user: in decode once per user.

        They work on ``UserTokens.tokens`` tokens, and find in ``UserTokens.at`` what belongs to these.
        """
        if self.decodes and self.options.batch > 1:
            with self.builder.loop(self.options.batch, over_users=True):
                yield UserTokens(tokens=1, turns=True)
        else:
            yield UserTokens(tokens=self.tokens, turns=False)

    @contextmanager
    def over_tokens(self) -> Iterator[UserTokens]:
        """Run the steps added inside once per token. They do not depend on counters."""
        if self.tokens > 1:
            with self.builder.loop(self.tokens):
                yield UserTokens(tokens=1, turns=True)
        else:
            yield UserTokens(tokens=1, turns=False)

    def tile(self, name: str) -> SymBuffer:
        """Return a weight tile of the current stage."""
        return self.buffers.tile(self.builder.stage, name)

    def own_tile(self, tensor: str) -> SymBuffer:
        """Prefill's own tile of a tensor."""
        return self.buffers.tile(self.builder.stage, prefill_tile_name(tensor))

    def hidden_vector(self, name: str, use: str) -> SymBuffer:
        """Return a trained vector that is divided like the hidden vector; on the mesh it comes from the diagonal."""
        if self.own_weights:
            return self.own_tile(name)
        if not self.on_mesh:
            return self.tile(name)
        rows, d = self.cut.rows, self.cut.hidden_per_pe
        by_column = self.temp(f"{use}_by_column", d, "wgt", "buffers")
        self.builder.line(self.patterns.get(diagonal_multicast, rows), COLUMNS, self.tile(name), d, target=by_column)
        return by_column

    def groups(self, length: int) -> tuple[int, ...] | None:
        """Return the groups in each level of an all-reduce over ``length`` PEs; none on the mesh with a copy of the
        weights.
        """
        if self.own_weights:
            return ()
        if self.options.groups == FEWEST_RELAYS:
            return None
        return (equal_group_count(length) if self.options.groups == EQUAL_GROUPS else self.options.groups,)

    def lines(self, axis: int) -> tuple[int, int]:
        """Return the PEs of a line along ``axis``, and the number of lines."""
        return (self.cut.cols, self.cut.rows) if axis == ROWS else (self.cut.rows, self.cut.cols)

    def end_block(self) -> None:
        """Copy the residual stream back to its own buffer when all parts of a split block have added to it."""
        parts, elements = self.stream, self.tokens * self.cut.hidden_per_pe
        self.enter_stage(self.builder.stage)
        self.builder.compute("copy", out=self.stream, x=parts, n=elements)

    def enter_stage(self, stage: int) -> None:
        """Continue in another stage, where the residual stream has its own buffer."""
        self.builder.stage = stage
        self.stream = SymAddress(buffer=self.temp("x", self.tokens * self.cut.hidden_per_pe, "act"))
