"""Tests of reading safetensors files and sharded checkpoints, including damaged files."""

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors_writer import header_of, join_safetensors, write_safetensors

from tests.hardware.helpers import refusal
from tests.models.helpers import result_or_refusal
from wse.errors import BadModel
from wse.models.tensors.safetensors_file import open_model_files, open_safetensors, open_sharded

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(4, dtype=np.float16)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_arrays_are_views_of_the_file(tmp_path: Path, dtype: Any) -> None:
    tensors = {"a": A.astype(dtype), "b": np.zeros((0, 3), dtype), "c": np.array(1.5, dtype)}
    entries = open_safetensors(write_safetensors(tmp_path / "m.safetensors", tensors))
    assert list(entries) == ["a", "b", "c"]
    for name, wanted in tensors.items():
        got = entries[name].array()
        assert got.dtype == wanted.dtype
        assert entries[name].shape == got.shape == wanted.shape
        np.testing.assert_array_equal(got, wanted)
        assert not got.flags.writeable
        assert not got.flags.owndata


def test_header_may_be_padded_and_have_names_in_any_order(tmp_path: Path) -> None:
    header = header_of({"a": A, "b": B})
    header = dict(reversed(header.items()))
    path = tmp_path / "m.safetensors"
    path.write_bytes(join_safetensors(header, A.tobytes() + B.tobytes(), padding=5))
    np.testing.assert_array_equal(open_safetensors(path)["a"].array(), A)


def test_a_file_without_tensors_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(join_safetensors({}, b""))
    assert open_safetensors(path) == {}


def entry(**changes: Any) -> dict[str, Any]:
    """Return the header entry of a float32 tensor of shape [2, 3], with changes."""
    return {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} | changes


AGAIN = "; fetch the file again"
SUPPORTED = "supported: F32, F16, BF16, F8_E4M3, BOOL, U8, I8, F64, I16, I32, I64, U16, U32, U64"
FAULTS: list[tuple[str, Any, str]] = [
    ("float4", {"a": entry(dtype="F4")}, "tensor 'a': dtype 'F4' is not supported; " + SUPPORTED),
    ("unknown dtype", {"a": entry(dtype="F99")}, "tensor 'a': dtype 'F99' is not an element type of the format; "),
    ("negative", {"a": entry(shape=[-2, 3])}, "tensor 'a': shape [-2, 3] is not a list of plausible sizes" + AGAIN),
    (
        "huge",
        {"a": entry(shape=[2**62, 2**62])},
        f"tensor 'a': shape [{2**62}, {2**62}] is not a list of plausible sizes" + AGAIN,
    ),
    (
        "huge but empty",
        {"a": entry(shape=[0, 2**50, 2**50], data_offsets=[0, 0])},
        f"tensor 'a': shape [0, {2**50}, {2**50}] is not a list of plausible sizes" + AGAIN,
    ),
    ("out of file", {"a": entry(data_offsets=[0, 48])}, "tensor 'a': data_offsets [0, 48] must be [begin"),
    ("wrong size", {"a": entry(shape=[2, 2])}, "tensor 'a': has 24 bytes, shape [2, 2] of F32 needs 16" + AGAIN),
    ("no offsets", {"a": {"dtype": "F32", "shape": [6]}}, "tensor 'a': must have dtype"),
    ("overlap", {"a": entry(), "b": entry(shape=[2], data_offsets=[8, 16])}, "tensor 'b' begins at byte 8 of the"),
    ("hole", {"a": entry(shape=[2], data_offsets=[16, 24])}, "tensor 'a' begins at byte 16 of the data and leaves a"),
    ("hole at the end", {"a": entry(shape=[2], data_offsets=[0, 8])}, "has 24 bytes of data, its tensors take 8"),
    ("list", b"[1]", "its header does not begin with '{'; is it a safetensors file?"),
    ("not JSON", b'{"a":]', "header: not JSON at line 1, column 6 (Expecting value)"),
    ("duplicate", b'{"a":1,"a":2}', "header: the key 'a' is given twice; correct it or fetch the file again"),
]


@pytest.mark.parametrize(("header", "tail"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_broken_header_is_refused(tmp_path: Path, header: Any, tail: str) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(join_safetensors(header, A.tobytes()))
    assert refusal(BadModel, open_safetensors, path).startswith(f"{path}: {tail}")


def test_short_files_and_implausible_lengths_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"")
    assert refusal(BadModel, open_safetensors, path) == (f"{path}: is empty{AGAIN}")
    path.write_bytes(b"1234567")
    assert f"has 7 bytes, a safetensors file has at least 10{AGAIN}" in refusal(BadModel, open_safetensors, path)
    path.write_bytes(struct.pack("<Q", 300) + b"{}")
    assert refusal(BadModel, open_safetensors, path) == (f"{path}: claims a header of 300 bytes, only 2 follow{AGAIN}")
    path.write_bytes(struct.pack("<Q", 10**9) + b"{}")
    assert "claims a header of 1,000,000,000 bytes" in refusal(BadModel, open_safetensors, path)
    assert "does not exist or is not a regular" in refusal(BadModel, open_safetensors, tmp_path / "none.safetensors")


def test_every_cut_of_a_good_file_is_refused(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "m.safetensors", {"a": A, "b": B})
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        refusal(BadModel, open_safetensors, path)


FIELDS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F16", "BF16", "I64"]) | st.text(max_size=3),
        "shape": st.lists(st.integers(-1, 4) | st.integers(), max_size=3) | st.none(),
        "data_offsets": st.lists(st.integers(0, 24) | st.integers(), max_size=3) | st.none(),
    }
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=60)
    | st.builds(
        join_safetensors,
        st.dictionaries(st.text(max_size=3), FIELDS | st.none(), max_size=3) | st.binary(max_size=20),
        st.binary(max_size=24),
    )
)
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    entries = result_or_refusal(BadModel, open_safetensors, path) or {}
    assert sum(e.stored_bytes for e in entries.values()) <= len(content)


def write_sharded(folder: Path, weight_map: Any) -> Path:
    """Write two shards and an index with this map; return the path of the index."""
    write_safetensors(folder / "one.safetensors", {"a": A})
    write_safetensors(folder / "two.safetensors", {"b": B})
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 32}, "weight_map": weight_map}))
    return index


def test_shards_are_merged(tmp_path: Path) -> None:
    write_sharded(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    entries = open_model_files(tmp_path)
    np.testing.assert_array_equal(entries["a"].array(), A)
    np.testing.assert_array_equal(entries["b"].array(), B)


@pytest.mark.parametrize("name", ["../one.safetensors", "/etc/one.safetensors", "a\\b.safetensors", "one.bin", 7])
def test_shard_outside_the_folder_of_its_index_is_refused(tmp_path: Path, name: Any) -> None:
    index = write_sharded(tmp_path, {"a": name})
    assert refusal(BadModel, open_sharded, index) == (
        f"{index}: 'a' is in {name!r}; a shard must be a .safetensors file beside the index, named without folders"
    )


@pytest.mark.parametrize("weight_map", [{}, None, ["a"]])
def test_an_index_without_a_map_is_refused(tmp_path: Path, weight_map: Any) -> None:
    index = write_sharded(tmp_path, weight_map)
    assert f"weight_map must be an object of tensor name to file name{AGAIN}" in refusal(BadModel, open_sharded, index)


def test_an_index_that_disagrees_with_its_shards_is_refused(tmp_path: Path) -> None:
    index = write_sharded(tmp_path, {"a": "two.safetensors", "b": "two.safetensors"})
    assert "'a' is not in two.safetensors, where the index puts it" in refusal(BadModel, open_sharded, index)
    index = write_sharded(tmp_path, {"a": "three.safetensors"})
    assert "1 of 1 shards are missing: three.safetensors" in refusal(BadModel, open_sharded, index)
    index = write_sharded(tmp_path, {"a": "one.safetensors"} | {f"t{i}": f"{i:02}.safetensors" for i in range(12)})
    named = ", ".join(f"{i:02}.safetensors" for i in range(10))
    assert f"12 of 13 shards are missing: {named}, …" in refusal(BadModel, open_sharded, index)
    index = write_sharded(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    write_safetensors(tmp_path / "two.safetensors", {"a": A, "b": B})
    assert f"tensor 'a' is also in one.safetensors{AGAIN}" in refusal(BadModel, open_sharded, index)


def test_a_folder_without_weights_has_no_tensors(tmp_path: Path) -> None:
    assert open_model_files(tmp_path) is None
