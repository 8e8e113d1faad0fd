"""Every form of tokenizer against what transformers and sentencepiece give: ``tools/make_tokenizer_goldens.py``."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import write_arrays
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.helpers import write_config
from wse.models.configs.config import read_config
from wse.models.gguf.file import GgufFile
from wse.models.gguf.tokenizer import gguf_tokenizer
from wse.models.tokenizers.library_tokenizer import LibraryTokenizer
from wse.models.tokenizers.tokenizer import load_tokenizer

DATA = Path(__file__).parents[2] / "data" / "text" / "tokenizers.json"


def cases() -> list[dict[str, Any]]:
    """Those of the file, with what they share put in its place."""
    found = json.loads(DATA.read_text(encoding="utf-8"))
    for case in found["cases"]:
        values = case.get("files") or case["metadata"]
        for key, value in values.items():
            if isinstance(value, dict):
                values[key] = found["shared"][value["shared"]]
    return list(found["cases"])


CASES = cases()


def size_of(case: dict[str, Any]) -> int:
    """Ids of the vocabulary, those that tokenizer_config.json adds included."""
    if "metadata" in case:
        return len(case["metadata"]["tokenizer.ggml.tokens"])
    if "tokenizer.model" in case["files"]:
        return 110 if "unigram" in case["name"] else 400
    own = len(json.loads(case["files"]["tokenizer.json"])["model"]["vocab"])
    return own + 2 * ("added" in case["name"])


def write_files(case: dict[str, Any], folder: Path) -> Path:
    for name, content in case["files"].items():
        is_binary = name.endswith(".model")
        (folder / name).write_bytes(base64.b64decode(content) if is_binary else content.encode())
    return folder


def tokenizer_of(case: dict[str, Any], folder: Path) -> LibraryTokenizer:
    spec = read_config(write_config(folder, vocab_size=size_of(case)))
    if "metadata" in case:
        found: Any = gguf_tokenizer(GgufFile(write_arrays(folder / "a.gguf", case["metadata"], {})), spec)
    else:
        found = load_tokenizer(write_files(case, folder), spec)
    assert isinstance(found, LibraryTokenizer)
    return found


@pytest.fixture(params=CASES, ids=lambda case: str(case["name"]))
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_ids_are_those_of_the_golden(case: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = tokenizer_of(case, tmp_path)
    assert {text: tokenizer.encode(text) for text in case["ids"]} == case["ids"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="ab 1é\n😀北'’\u0301👍🏽ﬁ", max_size=25))
def test_a_stream_joins_to_the_text_and_splits_no_character(case: dict[str, Any], text: str, cache: Any) -> None:
    tokenizer = cache(case)
    ids = tokenizer.encode(text)
    stream = tokenizer.stream()
    parts = [stream.push(i) for i in ids]
    assert "".join(parts) + stream.finish() == tokenizer.decode(ids)
    assert not any("\ufffd" in part for part in parts)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Tokenizers by case, made once."""
    made: dict[str, LibraryTokenizer] = {}

    def get(case: dict[str, Any]) -> LibraryTokenizer:
        if case["name"] not in made:
            made[case["name"]] = tokenizer_of(case, tmp_path_factory.mktemp("tokenizer"))
        return made[case["name"]]

    return get
