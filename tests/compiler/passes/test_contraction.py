"""Tests of cuts of dimensions at quantisation groups, which are used if PEs then need fewer bytes."""

from dataclasses import replace
from itertools import product

import pytest
from compiler_states import begin
from hypothesis import given, settings
from hypothesis import strategies as st
from session import SOFTWARE, region_options, wafer
from tiny_model import tiny_spec

from wse.compiler.choice import Choice
from wse.compiler.column_bytes import column_bytes
from wse.compiler.options import THIN_GEMM
from wse.compiler.passes.partition import partition
from wse.compiler.passes.shard import shard
from wse.compiler.passes.tiling.contraction import WeightTypes, even_cut, grouped_cut
from wse.compiler.passes.tiling.dimensions import EXPERTS, FFN, HIDDEN, SHARED
from wse.compiler.pipeline import compile_choice
from wse.models.expert_traits import Experts
from wse.models.spec import Layer, ModelSpec
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program
from wse_mappings.cuts.expert_groups import DISTRIBUTED, GROUPED
from wse_mappings.cuts.layer_parts import LAYER_PARTS, LayerRange
from wse_mappings.cuts.split import grouped_blocks, padded_blocks
from wse_mappings.result_cache import ResultCache
from wse_mappings.rounding import ceil_div

KINDS = (HIDDEN, FFN, SHARED, EXPERTS)
CUT = (HIDDEN, FFN), (HIDDEN, SHARED, EXPERTS)
"""Dimensions that are cut in the dense model and in the mixture."""
OPTIONS = region_options(dtype="bfloat16", activations="bfloat16", context=3, prompt_tokens=(2,))


def compiled(spec: ModelSpec, rows: int, cols: int, dtype: str, experts: str = DISTRIBUTED) -> Program:
    """Return a Program on ``rows`` x ``cols`` PEs with weights of a type."""
    options = replace(OPTIONS, dtype=dtype, experts=experts, cache=ResultCache())
    choice = Choice(prefill=THIN_GEMM, prefill_chunk=2, head_chunk=16)
    return compile_choice(spec, wafer(rows, cols, 1 << 22), SOFTWARE, options, choice)


def weight_bytes(program: Program) -> int:
    """Return the bytes per PE of linear layers and routers."""
    weights = [b for b in program.buffers if b.use == "weights" and b.name.startswith("layers.")]
    return sum(b.bytes for b in weights if "norm" not in b.name)


MIXTURE = replace(
    tiny_spec(hidden=192, heads=4, kv_heads=4, head_size=8, ffn=0, vocab=67),
    layers=(Layer(experts=True),),
    experts=Experts(count=6, active=2, ffn_size=96, shared_size=64),
)
DENSE = tiny_spec(hidden=192, heads=4, kv_heads=4, head_size=8, ffn=320, vocab=67)


@pytest.mark.parametrize(
    ("dtype", "spec", "mesh"),
    [("int4", DENSE, (20, 25)), ("mxfp4", DENSE, (6, 7)), ("int4", MIXTURE, (6, 7))],
    ids=["int4-dense", "mxfp4-dense", "int4-mixture"],
)
def test_other_cuts_need_at_least_as_many_bytes(
    dtype: str, spec: ModelSpec, mesh: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is compared with all combinations of cuts at groups and even cuts.

    Each dimension is cut independently, so the result may be up to 2 % worse than the best
    combination.
    """
    chosen_bytes = weight_bytes(compiled(spec, *mesh, dtype))
    forced_bytes = []
    for forced in product((0, 32), repeat=len(CUT[spec is MIXTURE])):
        groups = dict.fromkeys(KINDS, 0) | dict(zip(CUT[spec is MIXTURE], forced, strict=True))
        monkeypatch.setattr(WeightTypes, "group_of_cut", lambda self, spec, kind, parts, groups=groups: groups[kind])
        forced_bytes.append(weight_bytes(compiled(spec, *mesh, dtype)))
    monkeypatch.undo()
    assert chosen_bytes <= 1.02 * min(forced_bytes)
    assert chosen_bytes <= forced_bytes[0]


def test_dimension_is_cut_at_groups_if_blocks_do_not_get_longer() -> None:
    """192 features are divided over 18 rows.

    An even cut has 11 features per row, of up to two groups. A cut at groups has three rows per group.
    """
    for dtype, want in (("int4", 32), ("mxfp4", 32), ("int8", 0), ("fp8", 0), ("bfloat16", 0)):
        assert WeightTypes(dtype=dtype, float_bytes=2).group_of_cut(DENSE, HIDDEN, 18) == want
    int4 = WeightTypes(dtype="int4", float_bytes=2)
    assert int4.group_of_cut(DENSE, HIDDEN, 7) == 0  # 28 features per row, or 32 on six of seven rows
    assert int4.group_of_cut(DENSE, EXPERTS, 18) == 0  # the model has no experts


@given(extent=st.integers(1, 200), parts=st.integers(1, 60), group=st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_size_of_a_cut_is_known_without_its_blocks(extent: int, parts: int, group: int) -> None:
    for cut, index in (
        (even_cut(extent, parts, group), padded_blocks(extent, parts)),
        (grouped_cut(extent, parts, group), grouped_blocks(extent, parts, group)),
    ):
        group_counts = [len({place // group for place in line if place >= 0}) for line in index.tolist()]
        assert cut == (index.shape[1], max(group_counts))


@pytest.mark.parametrize(("cols", "dtype"), [(19, "int4"), (44, "bfloat16")])
def test_grouped_experts_use_the_fewest_groups_with_about_minimum_bytes(cols: int, dtype: str) -> None:
    mixture = replace(MIXTURE, experts=Experts(count=12, active=2, ffn_size=96))

    def bytes_of(placement: str) -> int:
        program = compiled(mixture, 6, cols, dtype, placement)
        return sum(buffer.bytes for buffer in program.buffers if ".experts." in buffer.name)

    sizes = {groups: bytes_of(str(groups)) for groups in range(2, 13)}
    group_count = WeightTypes(dtype=dtype, float_bytes=2).expert_placement(mixture, GROUPED, cols)
    assert bytes_of(GROUPED) == sizes[int(group_count)] <= 1.04 * min(sizes.values())
    assert all(sizes[groups] > sizes[int(group_count)] for groups in range(2, int(group_count)))


@pytest.mark.parametrize(
    ("dtype", "spec", "mesh"),
    [
        ("int4", DENSE, (6, 16)),
        ("int8", DENSE, (24, 24)),
        ("bfloat16", DENSE, (13, 8)),
        ("int4", MIXTURE, (24, 24)),
        ("bfloat16", MIXTURE, (6, 16)),
    ],
)
def test_bytes_are_known_before_tiles_are_cut(dtype: str, spec: ModelSpec, mesh: tuple[int, int]) -> None:
    """Forecasts agree to a few percent.

    They do not include scales of attention that several columns store, nor the indices of groups.
    """
    program = compiled(spec, *mesh, dtype)
    options = replace(OPTIONS, dtype=dtype, context=0)
    column = column_bytes(spec, options)(LayerRange(0, spec.layer_count), 0)(mesh[1])
    forecast = column * WeightTypes(dtype=dtype, float_bytes=2).row_share(spec, mesh[0])
    assert forecast == pytest.approx(weight_bytes(program), rel=0.04)


@pytest.mark.parametrize(("cols", "tied"), [(1, False), (7, True), (12, False), (40, True)])
def test_bytes_of_a_column_are_those_of_its_tiles(cols: int, tied: bool) -> None:  # noqa: FBT001
    spec = tiny_spec(tied=tied)
    state = begin((spec.hidden_size, cols), spec)
    tiles = [tile.buffer for tile in shard(partition(state)).tiles if tile.tile.parts[0].outer is not None]
    element = ELEMENT_BYTES[state.options.activation_type]
    matrices = sum(tile.elements for tile in tiles) * spec.hidden_size * element
    size = column_bytes(spec, replace(state.options, context=0))(LayerRange(0, spec.layer_count), 1 if tied else 2)
    vectors = 2 * spec.layer_count * spec.hidden_size * element / cols
    assert size(cols) == pytest.approx(matrices + vectors)


@pytest.mark.parametrize("cols", [5, 40])
@pytest.mark.parametrize("part", range(1, LAYER_PARTS))
def test_parts_of_layers_are_cut_separately_into_whole_features(cols: int, part: int) -> None:
    """Of two layers, the first starts with a part and the second ends before the same part."""
    spec = replace(tiny_spec(layers=3, heads=40, kv_heads=40, ffn=64), tied_embedding=False)
    size = column_bytes(spec, replace(begin((1, 1)).options, context=0))
    last, first = size(LayerRange(0, 1, part), 0)(cols), size(LayerRange(0, 1, 0, part), 0)(cols)
    both, whole = size(LayerRange(0, 2, part, part), 0)(cols), size(LayerRange(0, 1), 0)(cols)
    assert both == pytest.approx(first + last)
    features = [ceil_div(64 - 8 * (part - 1), cols), ceil_div(8 * (part - 1), cols)]
    further = 3 * 40 * 4 * (sum(features) - ceil_div(64, cols))
    assert both - whole == pytest.approx(further)
