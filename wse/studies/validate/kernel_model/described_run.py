"""The run that a measurement describes: its model, context, block shape, layers and stages."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Final

from wse.models.spec import ModelSpec
from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.measured.models import dense_model
from wse.studies.validate.measured.text_numbers import read_whole, whole_in
from wse.studies.validate.predictors.prediction import require
from wse_mappings.rounding import ceil_div

UNFILLED_POSITIONS: Final = 524
"""Difference of maximum and mean context, in positions, for runs that state only the maximum.

Two runs of these series state both: a maximum of 2,048 with a mean of 1,524, and 8,192 with 7,668.
"""

_THOUSANDS: Final = re.compile(r"\b(?:at|context|ctx|,)\s*([0-9]+)\s*K\b", re.IGNORECASE)


def mean_context(m: Measurement) -> float | None:
    """Return a run's mean context length: the number of tokens in the KV cache.

    A measurement may state the mean, the first and last length, the numbers of prompt and generated
    tokens, or only the maximum. The result is None if it states none of them.
    """
    sizes = m.sizes
    if "context_mean" in sizes:
        return float(sizes["context_mean"])
    if "context_min" in sizes and "context_max" in sizes:
        return (sizes["context_min"] + sizes["context_max"]) / 2
    prompt, generated_tokens = sizes.get("prompt_len"), sizes.get("gen_tokens")
    if prompt is not None and generated_tokens is not None:
        return prompt + generated_tokens / 2
    maximum = sizes.get("context_max")
    if maximum is None:
        thousands = whole_in(_THOUSANDS, m.text("metric"), m.text("settings"))
        if thousands is None:
            return None
        maximum = 1024 * thousands
    return float(max(maximum // 2, maximum - UNFILLED_POSITIONS))


BLOCKS_PER_ROW: Final = 2
"""Number of blocks (rectangles of PEs) that are side by side on the wafer, in all floor plans."""

DEFAULT_TOP_K: Final = 20
SHORT_RUN_TOP_K: Final = 4
SHORT_RUN_POSITIONS: Final = 2048
"""Maximum context of runs that sampled from only `SHORT_RUN_TOP_K` candidates, by their authors.

This applies to runs in which attention and feed-forward parts are in different blocks of PEs."""

_TOP_K: Final = re.compile(r"TOP[_-]?K\s*=?\s*([0-9]+)", re.IGNORECASE)
_STAGES: Final = re.compile(r"\b([0-9]+) stages?\b", re.IGNORECASE)
_TWO_ROLES: Final = re.compile(
    r"\b(ATTN|A1)\b.*\bFFN\b|\bT_(attn|ffn)\b|\b(ATTN|FFN) (block|per layer|own|strip)", re.IGNORECASE
)
_THREE_PARTS: Final = re.compile(r"\bA1\b.*\bA2\b.*\bFFN\b")
_SHARED_BLOCK_MODELS: Final = ("qwen3-1.7b", "qwen3-0.6b")
"""Models whose kernels place both parts of a layer, attention and feed-forward, in one block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedRun:
    """A measured run of a whole model, or of one block (a rectangle of PEs that runs some layers).

    Attributes:
        shard: Sizes of the tensors on one PE.
        layers: Number of layers in the fullest block.
        blocks: Number of blocks of PEs; 0 if neither stated nor implied by stages and layers.
        stages: Number of pipeline stages. If the measurement does not state it, every block counts
            as a stage, or the number is 0 if blocks do not contain whole layers.
        divides_attention: Whether attention is divided into two pipeline stages. The second stage
            begins with the attention scores.
        top_k: Number of candidates from which the sampler draws a token.
        states_context: Whether the measurement states a context. Otherwise, the context of
            ``shard`` is 0.
        states_mean_context: Whether the measurement states the mean context, or the first and last
            context, instead of only a maximum or token counts.
    """

    shard: Shard
    layers: int
    blocks: int
    stages: int
    divides_attention: bool
    top_k: int
    states_context: bool
    states_mean_context: bool

    @property
    def states_stages(self) -> bool:
        """True if it is known which parts of the layers each pipeline stage executes.

        Only then can the stages be timed separately.
        """
        return self.divides_attention or self.shard.one_block_per_layer or (self.stages > 0 and self.blocks > 0)

    @property
    def rows_of_blocks(self) -> int:
        """Number of rows in which the blocks (rectangles of PEs) are arranged on the wafer."""
        return max(1, ceil_div(self.blocks, BLOCKS_PER_ROW))


def described_run(m: Measurement) -> DescribedRun:
    """Parse how a measured model was distributed over the PEs, and with which context it ran.

    Raises:
        Declined: The sizes of the model or of a block (a rectangle of PEs) are not known.
    """
    model = stated_dimensions(m)
    no_shape = "the row does not state the shape of a block"
    rows, cols = require(m.sizes.get("block_rows"), no_shape), require(m.sizes.get("block_cols"), no_shape)
    context = mean_context(m)
    layers = max_layers(m)
    stages = m.sizes.get("n_stages") or whole_in(_STAGES, m.text("metric")) or 0
    blocks = m.sizes.get("n_blocks") or _blocks_of_stages(m, model, stages, layers)
    shard = Shard(
        model=model,
        rows=rows,
        cols=cols,
        context=context or 0,
        batch=m.sizes.get("batch") or 1,
        one_block_per_layer=_shares_block(m, model, blocks, layers),
    )
    return DescribedRun(
        shard=shard,
        layers=layers or 1,
        blocks=blocks,
        stages=stages or (blocks if shard.one_block_per_layer else 0),
        divides_attention=_THREE_PARTS.search(m.text("metric")) is not None,
        top_k=top_k_of(m, is_shared_block=shard.one_block_per_layer),
        states_context=context is not None,
        states_mean_context="context_mean" in m.sizes or {"context_min", "context_max"} <= m.sizes.keys(),
    )


def stated_dimensions(m: Measurement) -> ModelSpec:
    """Return the sizes of the model that a measurement names.

    Raises:
        Declined: The sizes of the model are not known.
    """
    return require(dense_model(m.text("model")), f"the sizes of the model {m.text('model')[:40]!r} are not known")


UNREADABLE: Final = "the metric has a number that cannot be read"


def stated_number(text: str | None) -> int:
    """Convert a number in the text of a metric to an integer.

    Raises:
        Declined: The text is None or not an integer, or the number is too large.
    """
    return require(read_whole(text), UNREADABLE)


def shares_blocks(m: Measurement) -> bool:
    """Return whether attention and feed-forward of a layer run on the same block of PEs by default.

    A block is a rectangle of PEs. The default depends on the model that the measurement names.
    """
    return m.text("model").strip().lower() in _SHARED_BLOCK_MODELS


def _blocks_of_stages(m: Measurement, model: ModelSpec, stages: int, layers: int | None) -> int:
    """Return the number of blocks (rectangles of PEs) that store the whole model; 0 if unknown.

    The number of layers of all stages together shows what a stage is:

    - About as many layers as the model: a stage is either one block with whole layers, or two
      neighbouring blocks, one for attention and one for feed-forward.
    - About twice as many: a stage is one block with only attention or only feed-forward, so each
      layer of the model is counted twice.

    Args:
        m: The measurement.
        model: Sizes of the model.
        stages: Number of pipeline stages.
        layers: Number of layers per stage; None if not stated.
    """
    ratio = stages * (layers or 0) / model.layer_count
    if ratio >= 1.5 or (shares_blocks(m) and ratio >= 0.75):
        return stages
    return BLOCKS_PER_ROW * stages if ratio >= 0.75 else 0


def max_layers(m: Measurement) -> int | None:
    """Return the stated number of layers per pipeline stage, or None if it is not stated.

    If a range such as "2-4" is stated, its upper end is returned.
    """
    numbers = re.findall(r"[0-9]+", m.text("layers_per_stage").partition("(")[0])
    return max((read_whole(number) or 0 for number in numbers), default=0) or None


def _shares_block(m: Measurement, model: ModelSpec, blocks: int, layers: int | None) -> bool:
    """Return whether blocks of PEs store whole layers, not only attention or only feed-forward.

    If all blocks together have about twice as many layers as the model, each layer is counted
    twice. Each block then stores only one of the two parts of its layers.
    """
    if blocks and layers:
        ratio = blocks * layers / model.layer_count
        if ratio >= 1.5:
            return False
        if ratio >= 0.75:
            return True
    if _TWO_ROLES.search(f"{m.text('metric')} {m.text('settings')}"):
        return False
    return shares_blocks(m)


def top_k_of(m: Measurement, *, is_shared_block: bool) -> int:
    """Return top k: the number of candidates from which the sampler draws a token.

    If the measurement does not state it, a default is returned. There is a smaller default for
    short runs in which attention and feed-forward are in separate blocks (rectangles) of PEs.
    """
    top_k = whole_in(_TOP_K, m.text("settings"), m.text("metric"))
    if top_k is not None:
        return top_k or 1
    maximum = m.sizes.get("context_max")
    is_short = not is_shared_block and maximum is not None and maximum <= SHORT_RUN_POSITIONS
    return SHORT_RUN_TOP_K if is_short else DEFAULT_TOP_K


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Sizes of the tensors on one PE of a block, a rectangle of PEs that decodes tokens.

    The hidden vector is distributed across rows and copied along columns. Heads are distributed
    across columns. The tokens of the KV cache are distributed round-robin over rows.

    Attributes:
        model: Sizes of the model.
        rows: Number of PE rows of the block.
        cols: Number of PE columns of the block.
        context: Mean number of tokens in the KV cache.
        batch: Number of sequences that are decoded together.
        one_block_per_layer: Whether attention and feed-forward of a layer run on the same block.
    """

    model: ModelSpec
    rows: int
    cols: int
    context: float = 0
    batch: int = 1
    one_block_per_layer: bool = False

    @property
    def hidden(self) -> int:
        """Number of elements of the hidden vector on each PE.

        The vector is distributed across the rows of the block.
        """
        return math.ceil(self.model.hidden_size / self.rows)

    @property
    def queries(self) -> int:
        """Number of elements of the query vector on each PE.

        This is also the length of the output projection's input on the PE.
        """
        return math.ceil(self.model.query_size / self.cols)

    @property
    def keys(self) -> int:
        """Length of the part of a token's key vector that a PE caches, in elements.

        The keys of all heads are distributed across the columns of the block.
        """
        return math.ceil(self.model.key_size / self.cols)

    @property
    def ffn(self) -> int:
        """Number of elements of the feed-forward vector on each PE."""
        return math.ceil(self.model.ffn_size / self.cols)

    @property
    def band_cols(self) -> int:
        """Number of columns of PEs that share one key-value head."""
        return max(1, self.cols // self.model.kv_head_count)

    @property
    def heads(self) -> int:
        """Number of query heads on a PE: all query heads that share the PE's key-value head."""
        return self.model.queries_per_kv

    @property
    def positions(self) -> int:
        """Number of cached tokens of a sequence whose keys and values a PE stores, rounded up."""
        return max(1, math.ceil(self.context / self.rows))

    @property
    def scores(self) -> int:
        """Number of attention scores on a PE: one for each query head and cached token."""
        return self.heads * self.positions

    def with_context(self, context: float) -> Shard:
        """Return a copy of this shard with another mean number of tokens in the KV cache."""
        return replace(self, context=context)
