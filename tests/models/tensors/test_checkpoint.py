"""Tests of checkpoints: tensors as views, missing or wrong tensors, and rows that are read in parts."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_checkpoint import write_checkpoint
from safetensors_writer import write_safetensors

from tests.hardware.helpers import refusal
from tests.models.helpers import tiny_tensors, write_model
from wse.errors import BadModel, WseBug
from wse.models.configs.config import FAMILIES, read_config
from wse.models.family import CanonicalTensor, FileSlice
from wse.models.load import load_model
from wse.models.tensors import checkpoint as checkpoint_module
from wse.models.tensors.checkpoint import Checkpoint, TensorRows, _Pages
from wse.models.tensors.safetensors_file import open_model_files
from wse.models.tensors.tensor_entry import MappedFile, plain_entry

Q0 = "model.layers.0.self_attn.q_proj.weight"


def write_and_open(folder: Path, tensors: dict[str, Any] | None = None, **config: Any) -> Checkpoint:
    """Write the tiny model and return its checkpoint."""
    write_model(folder, tensors, **config)
    return Checkpoint(read_config(folder / "config.json"), open_model_files(folder))


def test_aligned_tensors_are_views_and_others_are_copied(tmp_path: Path) -> None:
    tensors = tiny_tensors()
    write_model(tmp_path, tensors)
    spec = read_config(tmp_path / "config.json")
    for padding in range(4):
        write_safetensors(tmp_path / "model.safetensors", tensors, padding=padding)
        got = Checkpoint(spec, open_model_files(tmp_path)).tensor("layers.0.q")
        assert got.flags.aligned
        assert not got.flags.writeable
        np.testing.assert_array_equal(got, tensors[Q0])


def test_harmless_extras_are_ignored_and_a_tied_model_has_no_head(tmp_path: Path) -> None:
    tensors = tiny_tensors(tied=True)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(3, np.float32)
    tensors["model.rotary_emb.inv_freq"] = np.ones(3, np.float32)
    checkpoint = write_and_open(tmp_path, tensors, tie_word_embeddings=True)
    assert "head" not in checkpoint.names
    with pytest.raises(WseBug, match="no tensor 'head'"):
        checkpoint.tensor("head")


def test_a_tied_model_with_another_head_is_refused(tmp_path: Path) -> None:
    message = refusal(BadModel, write_and_open, tmp_path, tiny_tensors(), tie_word_embeddings=True)
    assert "tensor 'lm_head.weight' differs from the embedding that the config ties it to" in message


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    tensors = tiny_tensors()
    del tensors[Q0]
    assert f"tensor {Q0!r} is missing" in refusal(BadModel, write_and_open, tmp_path, tensors)


@pytest.mark.parametrize(("dtype", "kind"), [(np.int64, "I64"), (ml_dtypes.float8_e4m3fn, "F8_E4M3")])
def test_unsupported_element_type_is_refused(tmp_path: Path, dtype: Any, kind: str) -> None:
    tensors = tiny_tensors()
    tensors[Q0] = tensors[Q0].astype(dtype)
    tail = " without scales" if kind == "F8_E4M3" else ""
    assert refusal(BadModel, write_and_open, tmp_path, tensors) == (
        f"{tmp_path / 'model.safetensors'}: tensor {Q0!r} is {kind}, which is not a type of weights{tail}; "
        "supported: F32, F16, BF16; or fp8 and mxfp4 with scales, named by quantization_config"
    )


def test_wrong_tensors_are_counted_and_ten_are_named(tmp_path: Path) -> None:
    tensors = tiny_tensors()
    message = refusal(BadModel, write_and_open, tmp_path, tensors, num_hidden_layers=1, head_dim=4)
    assert message.startswith(f"{tmp_path}: 13 tensors disagree with the config: {Q0!r} has shape [24, 12], ")
    assert message.count(" has shape ") == 4
    assert message.count(" is not part of a llama model of 1 layers") == 6
    assert message.endswith("; and 3 more; use the config.json that belongs to these weights")


GOLDENS = Path(__file__).parents[2] / "data"
FAMILY_NAMES = ("deepseek_v3", "falcon", "gpt2", "gpt_oss", "llama", "mixtral", "phi3")
PATHS = [
    *(GOLDENS / "families" / f"{name}.json" for name in FAMILY_NAMES),
    *sorted((GOLDENS / "formats").glob("*.json")),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_row_ranges_are_the_rows_of_the_whole_tensor(path: Path, tmp_path: Path) -> None:
    golden = json.loads(path.read_text(encoding="utf-8"))
    if golden["config"]["model_type"] not in FAMILIES:
        pytest.skip("this family is not read")
    checkpoint = load_model(write_checkpoint(tmp_path, golden, golden.get("dtype", "float32"))).checkpoint
    for name in checkpoint.names:
        whole, rows = checkpoint.tensor(name), checkpoint.rows(name)
        assert rows.shape == whole.shape
        cuts = sorted({0, 1, len(whole) // 3, len(whole) // 2 + 1, len(whole)})
        row_ranges = [rows[begin:end] for begin, end in pairwise(cuts)]
        np.testing.assert_array_equal(np.concatenate(row_ranges), whole, err_msg=name)
        assert rows[2:2].shape == (0, *whole.shape[1:])


SLICES: list[dict[str, Any]] = [
    {},
    {"index": (slice(1, 9, 2),)},
    {"index": (slice(2, None), slice(1, 4))},
    {"index": (slice(None), slice(0, 6, 3)), "transposed": True},
    {"rows": np.array([3, 3, 0, 9, 5])},
    {"index": (slice(1, None),), "rows": np.array([8, 0, 2])},
    {"transposed": True, "rows": np.array([5, 0])},
    {"index": (4,)},
]


@settings(max_examples=15, deadline=None)
@given(slice_values=st.sampled_from(SLICES), begin=st.integers(0, 6), count=st.integers(0, 6))
def test_row_range_of_a_slice_is_read(slice_values: dict[str, Any], begin: int, count: int) -> None:
    array = np.arange(60.0).reshape(10, 6)
    decoded: list[int] = []

    def decode(rows: Any) -> Any:
        decoded.append(array[rows].size)
        return array[rows]

    entry = replace(plain_entry("t", "F32", array.copy(), MappedFile(Path(__file__))), rows=decode)
    file_slice = FileSlice(file_name="t", file_shape=array.shape, **slice_values)
    whole = array[slice_values.get("index", ())]
    whole = whole.T if slice_values.get("transposed") else whole
    whole = whole[slice_values["rows"]] if "rows" in slice_values else whole
    assert file_slice.shape == whole.shape
    np.testing.assert_array_equal(file_slice.read(entry), whole)
    row_range = file_slice.read(entry, slice(begin, begin + count))
    np.testing.assert_array_equal(row_range, whole[begin : begin + count])
    assert decoded == [file_slice.read_values(len(whole)), file_slice.read_values(len(row_range))]


def test_decoded_values_count_whole_blocks_and_no_plain_values() -> None:
    """The tensors are like a transposed expert of gpt-oss, in which columns of a matrix share scales."""
    file = MappedFile(Path(__file__))
    plain = plain_entry("plain", "F32", np.zeros((10, 6), np.float32), file)
    packed = replace(plain_entry("packed", "F32", np.zeros((3, 6, 10), np.float32), file), kind="MXFP4")
    slices = (
        FileSlice(file_name="plain", file_shape=(10, 6)),
        FileSlice(file_name="packed", file_shape=(3, 6, 10), index=(1, slice(None), slice(0, 10, 2)), transposed=True),
    )
    rows = TensorRows(CanonicalTensor(name="t", slices=slices), {"plain": plain, "packed": packed}, _Pages([file]))
    assert rows.shape == (15, 6)
    assert rows.decoded_values(2, 5) == 3 * 6
    assert rows.decoded_values(11, 12) == 6 * 10
    assert rows.decoded_values(9, 15) == 6 + 6 * 10
    assert rows.is_read_whole


def test_pages_are_released_after_a_number_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = json.loads(PATHS[0].read_text(encoding="utf-8"))
    checkpoint = load_model(write_checkpoint(tmp_path, golden, golden.get("dtype", "float32"))).checkpoint
    rows, released = checkpoint.rows("embedding"), list[MappedFile]()
    count, width = rows.shape
    monkeypatch.setattr(checkpoint_module, "VALUES_IN_MEMORY", 5 * width)
    monkeypatch.setattr(MappedFile, "release_pages", lambda file: released.append(file))
    for row in range(count):
        rows[row : row + 1]
        assert len(released) == row // 5


def test_released_pages_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)) * 64)
    file = MappedFile(path)
    view = file.bytes[5:]
    file.release_pages()
    assert view.tobytes() == path.read_bytes()[5:]
