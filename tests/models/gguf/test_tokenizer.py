"""Tests of tokenizers from the metadata of a GGUF file: splitting as in the library, and bad vocabularies."""

from pathlib import Path
from typing import Any

import tokenizers
from gguf_writer import write_arrays
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from tests.hardware.helpers import refusal
from tests.models.helpers import write_config
from wse.errors import BadModel, UnknownName
from wse.models.configs.config import read_config
from wse.models.gguf.file import GgufFile
from wse.models.gguf.split_patterns import SPLITS
from wse.models.gguf.tokenizer import gguf_tokenizer
from wse.models.tokenizers.library_tokenizer import LibraryTokenizer

LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
BYTE_LEVEL: dict[str, Any] = {
    "model": "gpt2",
    "tokens": [*LETTERS, "<|end|>", "ab"],
    "token_type": [1] * 256 + [3, 1],
    "merges": ["a b"],
    "eos_token_id": 256,
    "bos_token_id": 256,
}
WITH_SCORES: dict[str, Any] = {
    "model": "llama",
    "tokens": ["<unk>", "<s>", "</s>", "<0x61>", "▁", "b", "▁b", "  "],
    "scores": [0.0, 0.0, 0.0, 0.0, -2.0, -3.0, -1.0, -9.0],
    "token_type": [2, 3, 3, 6, 1, 1, 1, 4],
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def tokenizer_or_none(folder: Path, values: dict[str, Any], size: int | None = None) -> LibraryTokenizer | None:
    """Write a GGUF file with vocabulary metadata and return its tokenizer, or None if it has no vocabulary."""
    metadata = {f"tokenizer.{'' if key == 'chat_template' else 'ggml.'}{key}": value for key, value in values.items()}
    spec = read_config(write_config(folder, vocab_size=size or len(values["tokens"])))
    return gguf_tokenizer(GgufFile(write_arrays(folder / "a.gguf", metadata, {})), spec)


def read(folder: Path, values: dict[str, Any], size: int | None = None) -> LibraryTokenizer:
    """Write a GGUF file with vocabulary metadata and return its tokenizer."""
    tokenizer = tokenizer_or_none(folder, values, size)
    assert tokenizer is not None
    return tokenizer


def test_file_without_a_vocabulary_gives_none(tmp_path: Path) -> None:
    assert tokenizer_or_none(tmp_path, BYTE_LEVEL | {"model": "no_vocab"}) is None


def test_chat_template_has_special_tokens_and_the_end_of_turn(tmp_path: Path) -> None:
    assert read(tmp_path, BYTE_LEVEL).chat is None
    chat = read(tmp_path, BYTE_LEVEL | {"chat_template": "{{ bos_token }}", "eot_token_id": 257}).chat
    assert chat.render([]) == "<|end|>"
    assert chat.end_ids == (257,)


def test_vocabulary_with_scores_encodes_and_decodes(tmp_path: Path) -> None:
    tokenizer = read(tmp_path, WITH_SCORES)
    assert tokenizer.encode("b") == [1, 6]
    assert tokenizer.encode("ba") == [1, 6, 3]
    assert tokenizer.decode([1, 6, 3]) == "ba"
    assert read(tmp_path, WITH_SCORES | {"add_space_prefix": False}).encode("b") == [1, 5]
    assert read(tmp_path, WITH_SCORES | {"add_bos_token": False, "add_eos_token": True}).encode("b") == [6, 2]


def test_default_begin_token_depends_on_the_splitting_pattern(tmp_path: Path) -> None:
    """Llama 3's splitting pattern implies a begin token and GPT-2's does not, as in llama.cpp."""
    assert read(tmp_path, BYTE_LEVEL).encode("ab") == [257]
    assert read(tmp_path, BYTE_LEVEL | {"pre": "llama-bpe"}).encode("ab") == [256, 257]
    assert read(tmp_path, BYTE_LEVEL | {"pre": "llama-bpe", "add_bos_token": False}).encode("ab") == [257]
    assert read(tmp_path, BYTE_LEVEL | {"add_bos_token": True}).encode("ab<|end|>") == [256, 257, 256]


def split_pieces(splitter: Any, text: str) -> list[str]:
    """Return the pieces into which a splitter divides a text."""
    return [piece for piece, _ in splitter.pre_tokenize_str(text)]


def splitter(name: str) -> Any:
    """Return a splitter of the library with the patterns of a named GGUF splitter."""
    split = [pre_tokenizers.Split(tokenizers.Regex(p), "isolated") for p in SPLITS[name].patterns]
    return pre_tokenizers.Sequence([*split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=20) | st.text(alphabet="aB 1'slt\n\t.é²½北", max_size=30))
def test_gpt_2_and_smollm_split_like_the_library(text: str) -> None:
    own = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    assert split_pieces(splitter("gpt-2"), text) == split_pieces(own, text)
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), own])
    assert split_pieces(splitter("smollm"), text) == split_pieces(digits, text)


def test_bad_vocabularies_are_refused(tmp_path: Path) -> None:
    where = tmp_path / "a.gguf"
    scores = f"{where}: tokenizer.ggml.scores: every token of model llama has a finite one; fetch the file again"
    assert refusal(BadModel, read, tmp_path, {k: v for k, v in WITH_SCORES.items() if k != "scores"}) == scores
    assert refusal(BadModel, read, tmp_path, WITH_SCORES | {"scores": [float("nan")] * 8}) == scores
    message = refusal(BadModel, read, tmp_path, BYTE_LEVEL | {"merges": ["a zz"]})
    assert message.startswith(f"{where}: not a tokenizer of the tokenizers library (")
    twice = refusal(BadModel, read, tmp_path, BYTE_LEVEL | {"tokens": [*LETTERS, "a", "ab"]})
    assert twice == f"{where}: the token 'a' is there twice, as 64 and 256; fetch the file again"
    larger = refusal(BadModel, read, tmp_path, BYTE_LEVEL, 200)
    assert larger == f"{where}: has 258 tokens, the model 200; use the tokenizer that belongs to the model"
    assert "unknown tokenizer.ggml.model 'bert'" in refusal(UnknownName, read, tmp_path, BYTE_LEVEL | {"model": "bert"})
    message = refusal(UnknownName, read, tmp_path, BYTE_LEVEL | {"pre": "lama-bpe"})
    assert message.startswith(f"{where}: unknown tokenizer.ggml.pre 'lama-bpe': did you mean 'llama-bpe'? known: ")
    assert "qwen2" in message
