"""Float32 tables of a region from which kernels read indices of features, or rotary frequencies."""

from __future__ import annotations

import numpy as np

from wse.compiler.passes.tiling.tile_parts import part_of, tile_of
from wse.compiler.state import RegionCut
from wse.models.attention_traits import Rope
from wse.models.spec import ModelSpec
from wse.program.program import FREQUENCIES, ORDINALS, WINDOW_FREQUENCIES
from wse.program.steps import COLUMNS, ROWS
from wse.program.tiles import Tile

FIRST_KEY = "first_key_feature"
"""Table of linear attention: first key feature of a column, numbered from 1; 0 means none."""

HEADS, FIRST, WANTED = "heads_of_row", "rotated_of_row", "rotated_of_column"
"""Tables of latent attention: heads of a row, its first rotated feature, features of a column.

Positions are numbered from 1; 0 means padding.
"""


def index_tables(cut: RegionCut) -> list[Tile]:
    """Return the float32 tables from which kernels of latent or linear attention read indices.

    The list is empty for models without such attention.
    """
    if cut.linear is not None:
        return [tile_of([part_of(ORDINALS, None, (cut.linear.first_key, ROWS))], view="f32", name=FIRST_KEY)]
    if cut.latent is None:
        return []
    tables = (
        (HEADS, (cut.latent.heads, COLUMNS)),
        (FIRST, (cut.latent.first_rotated, COLUMNS)),
        (WANTED, (cut.heads.features, ROWS)),
    )
    return [tile_of([part_of(ORDINALS, None, index)], view="f32", name=name) for name, index in tables]


def frequencies_name(spec: ModelSpec, rope: Rope) -> str:
    """Return the name of the tile with the frequencies of a model's rotary position embeddings."""
    return WINDOW_FREQUENCIES if rope == spec.window_rope else FREQUENCIES


def frequency_table(cut: RegionCut, count: int, name: str) -> Tile:
    """Return the float32 tile with the inverse frequency of each rotary pair of a column.

    A rotary pair consists of two features that the rotary embedding rotates together.

    Args:
        cut: Partitioning of the model dimensions across the PEs of the region.
        count: Number of frequencies of the model. Pairs beyond the last frequency get 0 and are
            therefore not rotated.
        name: Name of the tile.
    """
    first = cut.heads.features[:, : cut.heads.rotated // 2]
    features = np.ascontiguousarray(np.where(first < count, first, np.int32(-1)))
    return tile_of([part_of(name, None, (features, ROWS))], view="f32")
