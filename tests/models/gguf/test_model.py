from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from as_gguf import as_gguf
from gguf_writer import write_arrays

from tests.hardware.helpers import refusal
from tests.models.helpers import CONFIG, about, tiny_tensors
from wse.errors import BadModel, UnknownName
from wse.models.gguf.configs import ARCHITECTURES
from wse.models.gguf.file import GgufFile
from wse.models.gguf.tokenizer import read_vocabulary
from wse.models.load import load_model

TINY = CONFIG | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}


def written(folder: Path, *drop: str, tensors: dict[str, Any] | None = None, **changes: Any) -> Path:
    """The tiny model with metadata changed (``__`` for a dot, ``_`` kept) and without the keys ``drop``."""
    metadata, made = as_gguf(TINY, tiny_tensors() if tensors is None else tensors)
    metadata |= {key.replace("__", "."): value for key, value in changes.items()}
    return write_arrays(folder / "m.gguf", {k: v for k, v in metadata.items() if k not in drop}, made)


def test_a_head_that_is_missing_is_the_embedding(tmp_path: Path) -> None:
    model = load_model(written(tmp_path, tensors=tiny_tensors(tied=True)))
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
    assert load_model(written(tmp_path, tensors=tensors)).spec.dtype == dtype


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
    path = written(tmp_path, *drop, **changes)
    stored = {key.replace("__", "."): value for key, value in changes.items()}
    assert refusal(BadModel, load_model, path).startswith(f"{path}: {about(stored, tail)}")


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, general__architecture="bloom")
    assert refusal(UnknownName, load_model, path) == (
        f"{path}: unknown GGUF architecture 'bloom': known: {', '.join(sorted(ARCHITECTURES))}"
    )


@pytest.mark.parametrize("factors", [[1.0, 2.0], [1.0, 0.0, 2.0], [1.0, np.nan, 2.0]])
def test_factors_of_frequencies_that_are_none_are_refused(tmp_path: Path, factors: list[float]) -> None:
    metadata, made = as_gguf(TINY, tiny_tensors())
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
    metadata = VOCABULARY | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    return read_vocabulary(GgufFile(write_arrays(folder / "v.gguf", metadata, {})))


def test_the_vocabulary_comes_back(tmp_path: Path) -> None:
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
def test_a_vocabulary_that_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], tail: str) -> None:
    assert refusal(BadModel, vocabulary, tmp_path, **changes) == f"{tmp_path / 'v.gguf'}: {tail}"
