"""Lowering context: the information shared by all lowering functions, and where they add steps.

A lowering function is called with the context and an op. It requests buffers, tiles and patterns
from the context, and adds steps to the context's builder. These functions use short names for
sizes:

- H and Hk: query and KV heads per column
- F: features per head on a column
- M: tokens
- d: hidden features per PE
- P: rows of a square region
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wse.compiler.choice import Choice
from wse.compiler.lowering.phase.buffers import Buffers, Patterns
from wse.compiler.lowering.phase.builder import PhaseBuilder
from wse.compiler.options import DECODE, MESH_GEMM_OWN, ROUTER_COPIES, VERIFY, Options
from wse.compiler.passes.tiling.op_tiles import prefill_tile_name
from wse.compiler.state import RegionCut, StagePlan
from wse.compiler.symbolic import SymAddress, SymBuffer
from wse.hardware.spec import WaferSpec
from wse.models.spec import ModelSpec
from wse.program.isa.pe_costs import PeCosts
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.cuts.layer_parts import ATTENTION, Parts
from wse_mappings.patterns.k_tree import EQUAL_GROUPS, FEWEST_RELAYS, equal_group_count
from wse_mappings.patterns.multicast import diagonal_multicast
from wse_mappings.rounding import ceil_div


@dataclass(kw_only=True)
class Context:
    """State of the lowering of one phase: the inputs it reads, and the parts it may change.

    Attributes:
        spec: The model, with the heads of the current layer.
        wafer, options, choice: Other inputs of the compilation.
        costs: Costs of operations on a PE.
        cuts, cuts_of_parts: Partitioning of the model dimensions across the PEs of each stage.
        plans: Layers and region of each stage.
        builder: Builder that collects the steps.
        buffers, patterns: Buffers and patterns of all phases.
        on_mesh: Whether the tokens are partitioned across rows. Otherwise every PE processes all
            tokens.
        name: Name of the phase.
        chunk: Number of tokens that the phase processes.
        parts: Parts of a layer whose ops are being lowered.
        tokens: Number of tokens that a PE processes: the chunk, or the maximum per row if the
            tokens are partitioned across rows. In decode, one token per user.
        stream: Address of the residual stream.
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
    parts: Parts = ATTENTION
    tokens: int = field(init=False)
    stream: SymAddress = field(init=False)
    _specs: dict[bool, ModelSpec] = field(init=False)

    def __post_init__(self) -> None:
        self._specs = {False: self.spec, True: self.spec.with_window_heads}
        self.tokens = ceil_div(self.chunk, self.cut.rows) if self.on_mesh else self.chunk
        self.stream = SymAddress(buffer=self.temp("x", self.tokens * self.cut.hidden_per_pe, "act"))

    @property
    def decodes(self) -> bool:
        """True if the phase is a decode pass, which generates one token per user."""
        return self.name == DECODE

    @property
    def verifies(self) -> bool:
        """True if the phase is a verification pass over several tokens of one user.

        Such a pass computes the id after each of the tokens.
        """
        return self.name == VERIFY

    @property
    def cut(self) -> RegionCut:
        """Partition of the model's dimensions across the PEs of the current stage.

        If a layer is split between stages, this applies to the part that is being lowered.
        """
        stage = self.builder.stage
        cut = self.cuts_of_parts.get((stage, self.parts)) or self.cuts[stage]
        return cut if cut.window is None or self.spec is self._specs[False] else cut.window

    @property
    def heads(self) -> tuple[int, int, int, int]:
        """Numbers of attention heads and of features per head on a column of PEs.

        The four numbers are: query heads on the column, KV heads on the column, query heads per KV
        head, and features of each head on the column.
        """
        kv_heads, queries_per_kv = self.cut.heads.kv_heads_per_col, self.spec.queries_per_kv // self.cut.heads.copies
        return kv_heads * queries_per_kv, kv_heads, queries_per_kv, self.cut.heads.features_per_head

    @property
    def rewrites(self) -> dict[str, int]:
        """Names of the rewrites that apply to the phase, mapped to their settings.

        A rewrite changes the steps of a layer to save cycles. Its setting is an integer whose
        meaning depends on the rewrite; it is 1 for rewrites without settings.
        """
        return dict(self.choice.rewrites_of_verification if self.verifies else self.choice.rewrites)

    @property
    def router_columns(self) -> int:
        """Number of neighbouring columns that together compute all outputs of an expert router.

        Normally, these are all columns of the region. With the rewrite `router_copies`, the columns
        form several segments, each of which computes all outputs. The number then refers to one
        segment.
        """
        assert self.spec.experts is not None
        return self.cut.cols // self.cut.router_copies(self.spec.experts.count, self.choice.setting_of(ROUTER_COPIES))

    @property
    def own_weights(self) -> bool:
        """True if the phase is prefill by MeshGEMM with a second copy of the weights."""
        return self.on_mesh and self.choice.prefill == MESH_GEMM_OWN

    def temp(self, name: str, elements: int, view: str, use: str = "activations") -> SymBuffer:
        """Return a buffer of the current stage for a temporary value.

        Args:
            name: Name. The same name refers to the same buffer in all phases.
            elements: Minimum number of elements.
            view: How the elements are read, such as ``act`` for activations or ``acc`` for sums.
            use: Purpose under which reports list the buffer's SRAM.
        """
        return self.buffers.get(self.builder.stage, name, elements, view, use)

    @property
    def normed_hidden(self) -> SymBuffer:
        """Buffer of the normalised hidden vectors, which attention and feed-forward blocks read."""
        return self.temp("normed", self.tokens * self.cut.hidden_per_pe, "act")

    def prompt_ids(self, elements: int) -> SymAddress:
        """Return the address of the token ids of a prompt chunk.

        The first entries of the buffer of ids are the next ids of all users, in order. The chunk's ids
        begin at the last of these entries, because the prompt of the last user is processed last.

        Args:
            elements: Number of ids in the chunk, including padding.
        """
        other_users = self.options.batch - 1
        return SymAddress(buffer=self._ids(other_users + elements), offset=other_users)

    def next_ids(self) -> SymAddress:
        """Return the address of the token ids that this phase reads or writes.

        - decode: one id per user
        - prefill: the id of the phase's user
        - verification: the ids of the tokens in the pass, stored after the ids of all users
        """
        batch = self.options.batch
        if self.verifies:
            return SymAddress(buffer=self._ids(batch + self.chunk), offset=batch)
        return SymAddress(buffer=self._ids(batch), per_round=1 if batch > 1 and not self.decodes else 0)

    def _ids(self, elements: int) -> SymBuffer:
        """Return the current stage's buffer of token ids, enlarged to ``elements`` if necessary."""
        return self.buffers.get(self.builder.stage, "token_ids", elements, "f32", "buffers", permanent=True)

    def cache(self, name: str, elements: int, view: str = "act", use: str = "kv") -> SymAddress:
        """Return the address of the key cache, value cache or state of one user.

        In a loop over users, the cache of the current iteration's user is returned. Elsewhere, it
        is the cache of the user to whom the phase belongs.

        Args:
            name: Name of the buffer with the caches of all users.
            elements: Number of elements in one user's cache on a PE.
            view: How the elements are read.
            use: Purpose under which reports list the buffer's SRAM.
        """
        batch = self.options.batch
        buffer = self.buffers.get(self.builder.stage, name, batch * elements, view, use, permanent=True)
        return SymAddress(buffer=buffer, per_round=elements if batch > 1 else 0)

    def tile(self, name: str) -> SymBuffer:
        """Return the buffer of a weight tile on the stage whose steps are being lowered.

        Args:
            name: Name of the tile.
        """
        return self.buffers.tile(self.builder.stage, name)

    def own_tile(self, tensor: str) -> SymBuffer:
        """Return the buffer with the second copy of a weight tile, which only prefill uses.

        Prefill by MeshGEMM needs a different weight layout from decode.
        """
        return self.buffers.tile(self.builder.stage, prefill_tile_name(tensor))

    def hidden_vector(self, name: str, use: str) -> SymBuffer:
        """Return the buffer of a trained vector, such as a gain, that is applied to hidden vectors.

        The vector is partitioned across PEs like the hidden vectors. In prefill by MeshGEMM, these
        are partitioned across columns instead of rows. If no copy of the vector in this layout is
        stored, a step is added in which the PEs on the diagonal send it along their columns.

        Args:
            name: Name of the vector.
            use: Purpose of the vector, which is part of the name of the buffer that receives it.
        """
        if self.own_weights:
            return self.own_tile(name)
        if not self.on_mesh:
            return self.tile(name)
        rows, d = self.cut.rows, self.cut.hidden_per_pe
        by_column = self.temp(f"{use}_by_column", d, "wgt", "buffers")
        self.builder.line(self.patterns.get(diagonal_multicast, rows), COLUMNS, self.tile(name), d, target=by_column)
        return by_column

    def groups(self, length: int) -> tuple[int, ...] | None:
        """Return the number of groups for a K-tree all-reduce along a line of PEs.

        A K-tree adds up values within groups of neighbouring PEs, then among the groups.

        Args:
            length: Number of PEs on the line.

        Returns:
            A tuple with the number of groups; an empty tuple if all PEs form one group. None if
            `wse_mappings.patterns.k_tree.k_tree` should use the number with the fewest relays (PEs
            that add their value to a received one and send the sum on).
        """
        if self.own_weights:
            return ()
        if self.options.groups == FEWEST_RELAYS:
            return None
        return (equal_group_count(length) if self.options.groups == EQUAL_GROUPS else self.options.groups,)

    def lines(self, axis: int) -> tuple[int, int]:
        """Return the length and number of the lines of PEs along an axis of the current region.

        Args:
            axis: ROWS for the rows of the region, COLUMNS for its columns.
        """
        return (self.cut.cols, self.cut.rows) if axis == ROWS else (self.cut.rows, self.cut.cols)

    def select_heads(self, *, windowed: bool) -> None:
        """Select the heads that ``spec`` and ``cut`` describe.

        Args:
            windowed: Whether these are the heads of layers with a sliding window.
        """
        self.spec = self._specs[windowed]

    def enter_stage(self, stage: int) -> None:
        """Make the following steps run on another stage (part of the model on its own PEs).

        ``stream``, the address of the residual stream, becomes the address of its buffer on that
        stage.
        """
        self.builder.stage = stage
        self.stream = SymAddress(buffer=self.temp("x", self.tokens * self.cut.hidden_per_pe, "act"))
