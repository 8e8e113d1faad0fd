"""The Program: what the compiler emits and what execution, the fabric model and the wavelet model read.

Frozen arrays and names for people; nothing here is looked up by name while a token runs. A *phase* is the step
sequence of one prefill chunk or one decoded token. Address operands count elements of a view from the first byte of
the stage that programs may use (``Stage.sram_base_byte``); only ``Buffer.address`` counts bytes from the start of
SRAM. An operand of a step is linear in what varies while it runs:

    operand = fixed + (per_slot + per_slot_round * round) * slots + per_round * round + odd * (round % 2)

where ``slots`` is the number of cache slots in use on the fullest row, of the user with the most, and ``round`` counts
the turns of the step's loop; a step outside of loops is in the round of the phase's user.

Users are those whose prompts are answered together. Each has a cache and counters of its own; a decoded token is one of
each user. What depends on a user's counters runs in a loop over the users.

Operands of steps that work on pairs of tokens and experts hold for the most pairs that a column may get; ``per_pair``
less for each fewer.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.codings import CODINGS
from wse.instructions import FIRST_OPERAND, OPERANDS, VIEWS
from wse.mixture import Mixture
from wse_mappings.placement import Rect
from wse_mappings.schedule import LineSchedule

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

HOST = -1
"""The host's place among wafer numbers."""

ELEMENT_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1}
DTYPES = ("float32", "float16", "bfloat16")
"""Element types that a model may be compiled to."""
WEIGHT_TYPES = (*DTYPES, *CODINGS)
"""How the weights of its linear layers may be held."""


class Kind(IntEnum):
    """What a step is."""

    COMPUTE = 0  # one kernel on every PE of a rectangle
    LINE = 1  # a pattern along rows or columns of a region
    CACHE_SHIFT = 2  # rows pass their oldest cache entry up
    HAND_OVER = 3  # a stream from one region to another of the same wafer
    CROSS = 4  # a stream between wafers, or to or from the host


ROWS, COLUMNS = 0, 1
"""Axis of a LINE step: along rows (east-west) or along columns (north-south)."""

SKEWED = 2
"""Besides, an axis of a tile's outer index: PE (i, j) of a square holds block ``wse_mappings.ring.skew(i, P)[j]``."""


class Field(IntEnum):
    """Operands of the steps that move words. A COMPUTE step has those of ``instructions.OPERANDS`` instead."""

    SOURCE = 3  # address in elements of the step's view
    TARGET = 4
    ELEMENTS = 5
    TARGET_STAGE = 6  # HAND_OVER, CROSS between wafers
    SOURCE_COL = 7  # first column that sends
    TARGET_COL = 8
    COLS = 9  # columns that send
    FROM_WAFER = 10  # CROSS
    TO_WAFER = 11
    BYTES = 12  # CROSS: payload without padding
    WHAT = 13  # CROSS with the host: see HostStream
    FIRST = 14  # CROSS of logits: local vocabulary index of the first
    COUNT = 15  # LINE with elements by pair: address (float32) of the pairs on a column


class HostStream(IntEnum):
    """What a CROSS step with the host carries."""

    NONE = 0
    TOKENS_IN = 1  # the prompt
    TOKEN_OUT = 2
    LOGITS_OUT = 3
    DRAWN_IN = 4  # the id that the host drew from the logits


ORDINALS = "ordinals"
"""The tensor whose values are 1, 2, 3 and so on: a tile of it tells a kernel the indices that the tile was cut with."""

OPERAND_COUNT = max(FIRST_OPERAND + max(map(len, OPERANDS.values())), max(Field) + 1)
"""Operands of a step, of which most use fewer."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Phase:
    """One step sequence, a struct of arrays over its steps.

    Attributes:
        name: ``prefill`` or ``decode``.
        tokens: Tokens that it processes: of a user's prompt, or one of each user.
        user: Whose prompt it reads; -1 for decode, which works for all.
        on_mesh: Whether tokens lie on the rows, a share each, rather than on every PE.
        cached: Tokens in the user's cache before a prefill chunk; 0 for decode, where it varies.
        kind: int32 ``[steps]``, a Kind.
        code: int32 ``[steps]``: COMPUTE: index into ``instructions.KERNELS``; LINE: index into ``Program.patterns``.
        axis: int32 ``[steps]``: ROWS or COLUMNS of a LINE step.
        view: int32 ``[steps]``: index into ``instructions.VIEWS`` of the elements that a step moves.
        stage, op: int32 ``[steps]``: indices into ``Program.stages`` and ``Program.op_names``.
        loop: int32 ``[steps]``: index into ``loops`` or -1.
        together: int32 ``[steps]``: steps with one number run at the same time; -1 alone.
        repaints: int32 ``[steps]``: how often the step's routes are rewritten, over all turns of its loop.
        fixed, per_slot, per_round, odd, per_slot_round, per_pair: int64 ``[steps, OPERAND_COUNT]``: see the module
            docstring.
        most_pairs: Pairs of tokens and experts for which ``fixed`` holds.
        loops: int32 ``[loops, 3]``: first step, one past the last, turns.
        over_users: bool ``[loops]``: whether a loop's turns are the users, whose counters its steps go by.
    """

    name: str
    tokens: int
    user: int
    on_mesh: bool
    cached: int
    kind: I32
    code: I32
    axis: I32
    view: I32
    stage: I32
    op: I32
    loop: I32
    together: I32
    repaints: I32
    fixed: I64
    per_slot: I64
    per_round: I64
    odd: I64
    per_slot_round: I64
    per_pair: I64
    most_pairs: int
    loops: I32
    over_users: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.kind)

    def operands(self, step: int, slots: int, round_: int = 0) -> I64:
        """int64 ``[OPERAND_COUNT]`` of one step."""
        varying = self.per_slot[step] * slots + self.per_round[step] * round_ + self.odd[step] * (round_ % 2)
        return np.asarray(self.fixed[step] + varying + self.per_slot_round[step] * (slots * round_), np.int64)

    @property
    def begins(self) -> bool:
        """Whether nothing precedes it in a run."""
        return self.cached == 0 and self.user <= 0

    def user_of(self, step: int, turn: int) -> int:
        """The user whose counters a step goes by in a turn of its loop."""
        loop = int(self.loop[step])
        return turn if loop >= 0 and self.over_users[loop] else max(self.user, 0)

    @cached_property
    def routed(self) -> npt.NDArray[np.bool_]:
        """bool ``[steps]``: whether a step's work depends on which experts were chosen."""
        return np.asarray(self.per_pair.any(axis=1))

    def of_pairs(self, step: int, pairs: int) -> Phase:
        """One step alone, as it is where the column has so many pairs of tokens and experts."""
        one: dict[str, Any] = {name: getattr(self, name)[step : step + 1] for name in _OF_STEPS | _OPERANDS}
        one["fixed"] = one["fixed"] - one["per_pair"] * (self.most_pairs - pairs)
        return replace(self, **one, most_pairs=pairs)

    def turns(self, step: int) -> int:
        """How often a step runs."""
        return 1 if self.loop[step] < 0 else int(self.loops[int(self.loop[step]), 2])


_OF_STEPS = frozenset(("kind", "code", "axis", "view", "stage", "op", "loop", "together", "repaints"))
_OPERANDS = frozenset(("fixed", "per_slot", "per_round", "odd", "per_slot_round", "per_pair"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The layers that one region holds."""

    wafer: int
    rect: Rect
    first_layer: int
    last_layer: int  # one past the last
    has_embedding: bool
    has_head: bool
    sram_base_byte: int  # first byte after code, stack and what the runtime keeps
    sram_top_byte: int  # one past the last byte in use; past the end of SRAM when the stage does not fit


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
class TilePart:
    """Where a stretch of a tile's values comes from.

    The value of element (a, b) at PE (i, j) is ``tensor[outer[a], inner[b]]``, swapped when ``transposed``; an index
    of -1 is padding and gives 0. Indices are ``[rows or cols, n]``: they vary over the mesh axis that is named, the
    outer one also over both, SKEWED. Without ``outer`` the tensor is a vector. ``offset`` ``[cols]`` is added to the
    inner index where that varies over rows; -1 makes padding of it.
    """

    tensor: str
    outer: I32 | None
    outer_axis: int
    inner: I32
    inner_axis: int
    transposed: bool
    offset: I32 | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tile:
    """A weight tile that every PE of a stage holds: ``[outer, inner]`` elements of ``view``, row-major.

    With a ``coding`` they are codes, and those that share a byte are neighbours in a column, the first in its low bits.
    """

    stage: int
    name: str
    address: int
    view: str
    outer: int
    inner: int
    parts: tuple[TilePart, ...]
    coding: str = ""

    @property
    def elements(self) -> int:
        """Elements of ``view`` that it takes."""
        return CODINGS[self.coding].code_bytes(self.outer, self.inner) if self.coding else self.outer * self.inner


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """A model placed on wafers and lowered to steps.

    Attributes:
        model_name, mapping_name, wafer_name: For people.
        wafer_rows, wafer_cols, wafers: The mesh of each wafer, and their number.
        sram_bytes_per_pe: What a PE has, whether or not the stages need more.
        prefill_name: The distributed product of prefill: ``mesh-gemm``, ``mesh-gemm-own-weights`` or ``thin-gemm``.
        element_types: Element type of each view, in the order of ``instructions.VIEWS``.
        weight_type: How the weights of linear layers are held: an element type or a coding.
        context: Tokens that a user's cache has room for.
        batch: Users, whose tokens are decoded at once.
        vocab_size: Logits of the model.
        stages, patterns, phases, buffers, tiles: See their types. Phases: prefill chunks in order, user by user,
            then decode; either may be missing where layers are timed alone.
        op_names, op_kinds, op_layers, op_stages: Ops in graph order; layer -1 for those outside the layers.
        op_edges: int32 ``[edges, 2]``.
        colour_uses: Colours by stage and pattern.
        ids_address: Element address (float32) of the users' next token ids in the embedding's stage; -1 for layers
            alone.
        root_row: Row of the head's region where logits are summed.
        logits_out: Whether logits go to the host.
        sampling: ``wafer`` (arg max on PEs) or ``host``.
        padding_fraction: Share of the weight elements in SRAM that are padding.
        mixture: Where experts are, if there are any.
    """

    model_name: str
    mapping_name: str
    wafer_name: str
    wafer_rows: int
    wafer_cols: int
    wafers: int
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
    mixture: Mixture | None

    @property
    def prefill(self) -> tuple[Phase, ...]:
        """The chunks of the prompts in order."""
        return tuple(phase for phase in self.phases if phase.name == "prefill")

    @property
    def decode(self) -> Phase:
        """One generated token of each user."""
        return self.phases[-1]

    @property
    def fits(self) -> bool:
        """Whether every stage fits the SRAM of its PEs. Only such a Program can be executed."""
        return all(stage.sram_top_byte <= self.sram_bytes_per_pe for stage in self.stages)

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
