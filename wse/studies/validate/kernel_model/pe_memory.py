"""SRAM use of a PE: weights and caches computed from its shard, and code sizes from a profile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from wse.hardware.code_sizes import CodeSizes
from wse.studies.validate.kernel_model.described_run import Shard
from wse.studies.validate.kernel_model.step_time import TAIL_COLS, TAIL_ROWS, VOCABULARY_MULTIPLE, tail_logits

ELEMENT_BYTES: Final = 2
"""Bytes of a weight, a cached key or value, and an activation between steps."""

SCORE_BYTES: Final = 4 + ELEMENT_BYTES
"""Bytes of a score, which is stored as float32 and again as bfloat16."""

MAX_STRIDE: Final = 127
"""Maximum number of positions on a PE for which one strided store can append a key. The stride has
eight bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeMemory:
    """SRAM use of a PE, which depends on its role.

    Attributes:
        role: For decode: ``attention``, ``feed_forward``, ``shared`` (both parts of a layer),
            ``head`` (embedding) or ``tail`` (output head). For prefill: ``prefill`` (both parts of
            a layer), or one of the other roles with the prefix ``prefill_``.
        shard: Sizes of the tensors on the PE, with the capacity of the KV cache as context. Each
            sequence of the batch has its own cache and activation buffers.
        layers: Number of layers of the PE's block.
        sizes: Bytes of code and fixed buffers.
        tokens: Number of tokens of a prefill chunk on the PE.
        has_strips: Whether the block has fewer rows than columns, which needs different code.
        has_appliance_code: Whether the compiler of the appliance generated the code, which changes
            its size.
        has_route_table: Whether the host writes the routes, which makes the code smaller.
    """

    role: str
    shard: Shard
    layers: int
    sizes: CodeSizes
    tokens: int = 0
    has_strips: bool = False
    has_appliance_code: bool = False
    has_route_table: bool = False

    @property
    def code_bytes(self) -> int:
        """Bytes of the kernels' instructions in SRAM."""
        sizes = self.sizes
        code = sizes.strip_code_bytes if self.has_strips and sizes.strip_code_bytes else sizes.code_bytes
        code += sizes.appliance_bytes if self.has_appliance_code else 0
        return code - (sizes.route_table_bytes if self.has_route_table else 0)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights that the PE stores."""
        s, values = self.shard, 0
        if self.has_cache:
            values += s.hidden * (s.queries + 2 * s.keys) + s.queries * s.hidden + s.hidden + s.queries + s.keys
        if self.role in ("feed_forward", "shared", "prefill", "prefill_feed_forward"):
            values += 3 * s.hidden * s.ffn + s.hidden
        values *= self.layers
        if self.role.endswith("tail"):
            hidden = math.ceil(s.model.hidden_size / TAIL_ROWS)
            values += hidden * tail_logits(s.model.vocab_size) + (hidden if self.role != "prefill_tail" else 0)
        if self.role == "prefill_head":
            values += math.ceil(s.model.hidden_size / TAIL_COLS) * tail_logits(s.model.vocab_size)
        elif self.role.endswith("head"):
            rows = math.ceil(s.model.vocab_size / VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE // TAIL_ROWS
            values += math.ceil(s.model.hidden_size / TAIL_COLS) * rows
        return ELEMENT_BYTES * values

    @property
    def has_cache(self) -> bool:
        """Whether the PE stores keys and values."""
        return self.role in ("attention", "shared", "prefill", "prefill_attention")

    @property
    def cache_bytes(self) -> int:
        """Bytes of the KV caches of all layers and sequences."""
        return self.shard.batch * self.layers * 2 * self.key_bytes * self.shard.positions if self.has_cache else 0

    @property
    def key_bytes(self) -> int:
        """Bytes of the keys of one cached token in one layer. The values need the same size."""
        return ELEMENT_BYTES * self.shard.keys

    @property
    def ingress_bytes(self) -> int:
        """Bytes of the buffer through which KV caches are loaded; only attention PEs have one."""
        return self.key_bytes * self.shard.positions if self.role == "attention" else 0

    @property
    def score_bytes(self) -> int:
        """Bytes of the buffers for attention scores of all sequences."""
        return self.shard.batch * SCORE_BYTES * self.shard.scores if self.role == "attention" else 0

    @property
    def activation_bytes(self) -> int:
        """Bytes of the buffers for activations of all sequences, including attention scores."""
        scratch = self.sizes.scratch_bytes + self.tokens * self.sizes.token_scratch_bytes
        return self.shard.batch * scratch + self.score_bytes

    @property
    def system_bytes(self) -> int:
        """Bytes of the vendor's runtime system on a PE: its tables, stack and buffers.

        The report of the linker lists them separately from the code and data of the model.
        """
        return self.sizes.system_bytes + self.tokens * self.sizes.token_system_bytes

    @property
    def used_bytes(self) -> int:
        """Total number of bytes used in the PE's SRAM."""
        return (
            self.code_bytes
            + self.weight_bytes
            + self.cache_bytes
            + self.ingress_bytes
            + self.sizes.rope_bytes
            + self.activation_bytes
            + self.system_bytes
        )

    @property
    def position_bytes(self) -> int:
        """Bytes that a PE needs to cache one more token of each sequence: keys, values and buffers.

        The result is 0 for a PE without a KV cache.
        """
        if not self.has_cache:
            return 0
        has_buffers = self.role == "attention"  # for scores and for loading a cache
        scores, ingress = (SCORE_BYTES * self.shard.heads, self.key_bytes) if has_buffers else (0, 0)
        return self.shard.batch * (self.layers * 2 * self.key_bytes + scores) + ingress

    def max_context(self, sram_bytes: int, *, has_long_strides: bool) -> int | None:
        """Return the maximum number of tokens for which a KV cache fits in SRAM.

        Args:
            sram_bytes: SRAM of a PE.
            has_long_strides: Whether the code can store keys with a stride of more than
                `MAX_STRIDE`. If not, a PE caches at most `MAX_STRIDE` tokens.

        Returns:
            Number of tokens on all PE rows together; None if the PE has no cache or if not even one
            token fits.
        """
        if not self.position_bytes:
            return None
        free = sram_bytes - self.used_bytes
        positions = self.shard.positions + free // self.position_bytes
        if positions < 1:
            return None
        return self.shard.rows * (positions if has_long_strides else min(positions, MAX_STRIDE))
