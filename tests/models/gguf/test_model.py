"""Tests of reading models and vocabularies from GGUF files, including damaged files."""

import itertools
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from as_gguf import as_gguf
from gguf_writer import head, item, padded, tensor_info, text, write_arrays
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from tests.models.helpers import CONFIG, fill_ellipsis, result_or_refusal, tiny_tensors
from wse.errors import BadModel, UnknownName
from wse.models.gguf.configs import ARCHITECTURES
from wse.models.gguf.file import GgufFile
from wse.models.gguf.rules import stored_entry
from wse.models.gguf.tensor_places import SUPPORTED
from wse.models.gguf.tokenizer import read_vocabulary
from wse.models.load import load_model

TINY_CONFIG = CONFIG | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}


def written_gguf(folder: Path, *drop: str, tensors: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Write the tiny model as a GGUF file and return its path.

    `changes` replace metadata, with ``__`` in a keyword for a dot in the key. The keys in `drop` are left out.
    """
    metadata, made = as_gguf(TINY_CONFIG, tiny_tensors() if tensors is None else tensors)
    metadata |= {key.replace("__", "."): value for key, value in changes.items()}
    return write_arrays(folder / "m.gguf", {k: v for k, v in metadata.items() if k not in drop}, made)


def test_model_without_a_head_is_tied_to_the_embedding(tmp_path: Path) -> None:
    model = load_model(written_gguf(tmp_path, tensors=tiny_tensors(tied=True)))
    assert model.spec.tied_embedding


@pytest.mark.parametrize(
    ("matrices", "vectors", "dtype"),
    [
        ([np.float16], np.float32, "float16"),
        ([ml_dtypes.bfloat16], np.float32, "bfloat16"),
        ([np.float32], np.float16, "float32"),
        ([np.float16, ml_dtypes.bfloat16], np.float32, "float16"),
    ],
)
def test_the_element_type_is_that_of_the_matrices(tmp_path: Path, matrices: Any, vectors: Any, dtype: str) -> None:
    types = itertools.cycle(matrices)
    tensors = {k: a.astype(next(types) if a.ndim > 1 else vectors) for k, a in tiny_tensors().items()}
    assert load_model(written_gguf(tmp_path, tensors=tensors)).spec.dtype == dtype


FAULTS: list[tuple[list[str], dict[str, Any], str]] = [
    (["llama.block_count"], {}, "has no llama.block_count; add it: an integer from 1 to 10,000"),
    ([], {"llama__block_count": 2**31}, "llama.block_count = 2147483648: give an integer from 1 to 10,000"),
    ([], {"llama__attention__head_count_kv": [2, 4]}, "…: layers of different sizes are not supported"),
    ([], {"llama__residual_scale": 0.5}, "…: this key is not understood and may change the mathematics"),
    ([], {"llama__attention__causal": False}, "…: supported: true"),
    ([], {"llama__attention__value_length": 8}, "…: supported: the size of keys, 6"),
    ([], {"llama__rope__scaling__type": 3}, "…: give a text"),
]


@pytest.mark.parametrize(("drop", "changes", "tail"), FAULTS)
def test_unusable_metadata_is_refused(tmp_path: Path, drop: list[str], changes: dict[str, Any], tail: str) -> None:
    path = written_gguf(tmp_path, *drop, **changes)
    stored = {key.replace("__", "."): value for key, value in changes.items()}
    assert refusal(BadModel, load_model, path).startswith(f"{path}: {fill_ellipsis(stored, tail)}")


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    path = written_gguf(tmp_path, general__architecture="bloom")
    assert refusal(UnknownName, load_model, path) == (
        f"{path}: unknown GGUF architecture 'bloom': known: {', '.join(sorted(ARCHITECTURES))}"
    )


@pytest.mark.parametrize("factors", [[1.0, 2.0], [1.0, 0.0, 2.0], [1.0, np.nan, 2.0]])
def test_bad_frequency_factors_are_refused(tmp_path: Path, factors: list[float]) -> None:
    metadata, made = as_gguf(TINY_CONFIG, tiny_tensors())
    made["rope_freqs.weight"] = np.array(factors, np.float32)
    path = write_arrays(tmp_path / "m.gguf", metadata, made)
    assert f"tensor 'rope_freqs.weight' has shape [{len(factors)}]" in refusal(BadModel, load_model, path)


VOCABULARY = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<s>", "a", "b"],
    "tokenizer.ggml.token_type": [3, 1, 1],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.bos_token_id": 0,
    "tokenizer.ggml.eot_token_id": 2,
    "tokenizer.ggml.add_bos_token": False,
    "tokenizer.chat_template": "{{ messages }}",
}


def vocabulary(folder: Path, **changes: Any) -> Any:
    """Write a GGUF file with the vocabulary `VOCABULARY` and changes, and read it."""
    metadata = VOCABULARY | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    return read_vocabulary(GgufFile(write_arrays(folder / "v.gguf", metadata, {})))


def test_vocabulary_is_read_back(tmp_path: Path) -> None:
    found = vocabulary(tmp_path)
    assert (found.model, found.pre, found.tokens, found.scores) == ("gpt2", "smollm", ["<s>", "a", "b"], None)
    assert (found.types, found.merges, found.special_ids) == ([3, 1, 1], ["a b"], {"bos": 0, "eot": 2})
    assert (found.flags, found.chat_template) == ({"add_bos_token": False}, "{{ messages }}")
    assert read_vocabulary(GgufFile(write_arrays(tmp_path / "v.gguf", {"k": 1}, {}))) is None


@pytest.mark.parametrize(
    ("changes", "tail"),
    [
        ({"tokens": [1, 2, 3]}, "tokenizer.ggml.tokens must be an array of str; fetch the file again"),
        ({"tokens": "abc"}, "tokenizer.ggml.tokens must be an array; fetch the file again"),
        ({"scores": [0.5]}, "tokenizer.ggml.scores has 1 elements for 3 tokens; fetch the file again"),
        ({"scores": [1, 2, 3]}, "tokenizer.ggml.scores must be an array of float; fetch the file again"),
        ({"bos_token_id": 3}, "tokenizer.ggml.bos_token_id = 3: give an integer from 0 to 2"),
        ({"model": 3}, "tokenizer.ggml.model = 3: give a text"),
    ],
)
def test_bad_vocabulary_is_refused(tmp_path: Path, changes: dict[str, Any], tail: str) -> None:
    assert refusal(BadModel, vocabulary, tmp_path, **changes) == f"{tmp_path / 'v.gguf'}: {tail}"


ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
AGAIN = "; fetch the file again"


def file_of(items: list[tuple[str, Any]], infos: bytes = b"", count: int = 0, data: bytes = b"") -> bytes:
    """Return a GGUF file with metadata `items`, `count` tensors that `infos` describes, and tensor `data`."""
    metadata = b"".join(text(key) + item(value) for key, value in items)
    return padded(head(count, len(items)) + metadata + infos) + data


def tensor_file(shape: tuple[int, ...] = (2, 4), number: int = 0, offset: int = 0) -> bytes:
    """Return a GGUF file with one tensor "a" of type `number` that begins at byte `offset` of 32 bytes of data."""
    return file_of([], tensor_info("a", shape, number, offset), 1, b"\0" * 32)


KINDS = ", ".join(SUPPORTED)
FILE_FAULTS: list[tuple[str, bytes, str]] = [
    ("empty", b"", "is empty" + AGAIN),
    ("short", b"GG", "ends inside its first four bytes: 4 bytes wanted at byte 0, 2 are left" + AGAIN),
    ("other", b"PK\3\4" + bytes(30), "does not begin with 'GGUF'; is it a GGUF file?"),
    ("version", head(0, 0, 1), "is GGUF version 1; supported: 2, 3"),
    ("big-endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is big-endian; convert it to little-endian"),
    ("tensors", head(2**40, 0), f"claims {2**40:,} tensors, the limit is 262,144" + AGAIN),
    ("cut", head(0, 1), "ends inside a key: 8 bytes wanted at byte 24, 0 are left" + AGAIN),
    ("long key", head(0, 1) + struct.pack("<Q", 2**60), f"a key claims {2**60:,} bytes, the limit is 65,535" + AGAIN),
    (
        "long text",
        head(0, 1) + text("k") + struct.pack("<IQ", 8, 2**63),
        f"k claims {2**63:,} bytes, the limit is 16,777,216" + AGAIN,
    ),
    ("not text", head(0, 1) + text("k") + struct.pack("<I", 8) + text(b"\xff"), "k at byte 45 is not UTF-8" + AGAIN),
    ("kind", head(0, 1) + text("k") + struct.pack("<I", 13), "k is of kind 13, which the format does not define"),
    ("array of arrays", head(0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1), "k is an array of kind 9; numbers and"),
    (
        "long array",
        head(0, 1) + text("k") + struct.pack("<IIQ", 9, 4, 2**50),
        f"k claims {2**50:,} elements, the limit is 16,777,216" + AGAIN,
    ),
    ("same key", file_of([("k", 1), ("k", 2)]), "the key 'k' is given twice" + AGAIN),
    ("alignment", file_of([("general.alignment", 24)]), "general.alignment = 24 must be a power of two up to"),
    ("parts", file_of([("split.count", 3)]), "is one of 3 parts of a model"),
    ("same tensor", file_of([], 2 * tensor_info("a", (4,), 0, 0), 2, bytes(32)), "tensor 'a' is there twice" + AGAIN),
    ("no dimensions", tensor_file(()), "tensor 'a' has 0 dimensions, the limit is 4" + AGAIN),
    (
        "huge",
        tensor_file((2**40, 2**40)),
        f"tensor 'a': shape [{2**40}, {2**40}] is not a list of plausible sizes" + AGAIN,
    ),
    ("offset", tensor_file(offset=8), "tensor 'a' begins at byte 8 of the data, which is not a multiple of 32" + AGAIN),
    (
        "past the end",
        tensor_file((3, 4)),
        "tensor 'a' takes 48 bytes from byte 96, the file has 128; it may be cut short",
    ),
    ("no whole blocks", tensor_file((2, 40), 8), "tensor 'a': rows of 40 are not whole blocks of 32 of Q8_0" + AGAIN),
    (
        "unsupported",
        tensor_file((2, 256), 16),
        f"1 tensors, 'a' first, are stored as IQ2_XXS, which is not supported; supported: {KINDS}",
    ),
    (
        "unknown",
        tensor_file((2, 256), 99),
        f"1 tensors, 'a' first, are stored as type 99, which is not supported; supported: {KINDS}",
    ),
    (
        "overlap",
        file_of([], tensor_info("a", (9,), 0, 0) + tensor_info("b", (4,), 0, 32), 2, bytes(64)),
        "tensors 'a' and 'b' overlap" + AGAIN,
    ),
]


@pytest.mark.parametrize(("content", "tail"), [f[1:] for f in FILE_FAULTS], ids=[f[0] for f in FILE_FAULTS])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, tail: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    assert refusal(BadModel, GgufFile, path).startswith(f"{path}: {tail}")


def test_every_cut_of_a_good_file_is_refused(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "m.gguf", {"k": "text", "words": ["a", "b"], "n": 3}, {"a": ARRAY})
    data = path.read_bytes()
    for length in range(len(data) - 16):  # the padding after the last tensor is not needed
        path.write_bytes(data[:length])
        refusal(BadModel, GgufFile, path)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_with_any_bytes_changed_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = write_arrays(tmp_path / "m.gguf", {"k": "text", "words": ["a", "b"], "n": 3}, {"a": ARRAY, "b": ARRAY[0]})
    content = bytearray(path.read_bytes())
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, 160), st.integers(0, 255)), min_size=1, max_size=4)):
        content[at] = value
    path.write_bytes(content)
    gguf = result_or_refusal(BadModel, GgufFile, path)
    for tensor in gguf.tensors.values() if gguf is not None else ():
        assert stored_entry(gguf, tensor).array().nbytes <= 8 * len(content)
