"""The run that a measurement describes: its model, block shape, layers and stages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.predictors.wafer_inference.dimensions import Dimensions, dimensions_of
from wse.studies.validate.predictors.wafer_inference.mean_context import mean_context
from wse.studies.validate.predictors.wafer_inference.shard import Shard

BLOCKS_PER_ROW: Final = 2
"""Blocks side by side on the wafer in every described floor plan."""

DEFAULT_TOP_K: Final = 20
SHORT_RUN_TOP_K: Final = 4
SHORT_RUN_POSITIONS: Final = 2048
"""Maximum context up to which runs with blocks in two roles used few candidates, by their authors."""

_TOP_K: Final = re.compile(r"TOP[_-]?K\s*=?\s*([0-9]+)", re.IGNORECASE)
_TWO_ROLES: Final = re.compile(
    r"\bATTN\b.*\bFFN\b|\bT_(attn|ffn)\b|\b(ATTN|FFN) (block|per layer|own|strip)", re.IGNORECASE
)
SHARED_BLOCK_MODELS: Final = ("qwen3-1.7b", "qwen3-0.6b")
"""Models whose kernels place attention and feed-forward part in one block of PEs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedRun:
    """A measured run of a whole model, or of one block of PEs.

    Attributes:
        shard: Sizes on one PE.
        layers: Number of layers in the fullest block.
        blocks: Number of blocks; 0 if not stated.
        stages: Number of pipeline stages; 0 if not stated.
        top_k: Number of most likely tokens among which the sampler chooses.
        states_context: Whether the row states a context; otherwise ``shard`` has none.
    """

    shard: Shard
    layers: int
    blocks: int
    stages: int
    top_k: int
    states_context: bool

    @property
    def rows_of_blocks(self) -> int:
        """Number of rows in which the blocks are placed on the wafer."""
        return max(1, -(-self.blocks // BLOCKS_PER_ROW))


def described_run(m: Measurement) -> DescribedRun | str:
    """Return the run that a measurement describes, or which information is missing."""
    model = dimensions_of(m.text("model"))
    if model is None:
        return f"the sizes of the model {m.text('model')[:40]!r} are not known"
    rows, cols = m.sizes.get("block_rows"), m.sizes.get("block_cols")
    if rows is None or cols is None:
        return "the row does not state the shape of a block"
    context = mean_context(m)
    layers = max_layers(m)
    blocks = m.sizes.get("n_blocks") or 0
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
        stages=m.sizes.get("n_stages") or 0,
        top_k=_top_k(m, is_shared_block=shard.one_block_per_layer),
        states_context=context is not None,
    )


def max_layers(m: Measurement) -> int | None:
    """Return the number of layers in the fullest block: the upper end of a stated range."""
    numbers = re.findall(r"[0-9]+", m.text("layers_per_stage").partition("(")[0])
    return max(map(int, numbers)) if numbers else None


def _shares_block(m: Measurement, model: Dimensions, blocks: int, layers: int | None) -> bool:
    """Return whether blocks have whole layers, not just attention or the feed-forward part.

    If all blocks together have about twice the layers of the model, each has only one part.
    """
    if blocks and layers:
        ratio = blocks * layers / model.layers
        if ratio >= 1.5:
            return False
        if ratio >= 0.75:
            return True
    if _TWO_ROLES.search(f"{m.text('metric')} {m.text('settings')}"):
        return False
    return m.text("model").strip().lower() in SHARED_BLOCK_MODELS


def _top_k(m: Measurement, *, is_shared_block: bool) -> int:
    """Return among how many tokens the sampler chooses: as stated, or as usual in these runs."""
    match = _TOP_K.search(m.text("settings")) or _TOP_K.search(m.text("metric"))
    if match:
        return int(match[1])
    maximum = m.sizes.get("context_max")
    is_short = not is_shared_block and maximum is not None and maximum <= SHORT_RUN_POSITIONS
    return SHORT_RUN_TOP_K if is_short else DEFAULT_TOP_K
