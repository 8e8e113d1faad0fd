"""Tests of token ids of real tokenizers against golden files, and of reading SentencePiece files."""

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import write_arrays
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from tests.models.helpers import result_or_refusal, write_config
from wse.errors import BadModel
from wse.models.configs.config import read_config
from wse.models.gguf.file import GgufFile
from wse.models.gguf.tokenizer import gguf_tokenizer
from wse.models.tokenizers.library_tokenizer import LibraryTokenizer
from wse.models.tokenizers.tokenizer import load_tokenizer, sentencepiece_tokenizer
from wse.models.tokenizers.tokenizer_config import TokenizerConfig

DATA = Path(__file__).parents[2] / "data" / "text" / "tokenizers.json"


def cases() -> list[dict[str, Any]]:
    """Return the cases of the golden file, with references to shared values replaced by the values."""
    found = json.loads(DATA.read_text(encoding="utf-8"))
    for case in found["cases"]:
        values = case.get("files") or case["metadata"]
        for key, value in values.items():
            if isinstance(value, dict):
                values[key] = found["shared"][value["shared"]]
    return list(found["cases"])


CASES = cases()


def size_of(case: dict[str, Any]) -> int:
    """Return the size of the vocabulary, including tokens that tokenizer_config.json adds."""
    if "metadata" in case:
        return len(case["metadata"]["tokenizer.ggml.tokens"])
    if "tokenizer.model" in case["files"]:
        return 110 if "unigram" in case["name"] else 400
    own = len(json.loads(case["files"]["tokenizer.json"])["model"]["vocab"])
    return own + 2 * ("added" in case["name"])


def write_files(case: dict[str, Any], folder: Path) -> Path:
    """Write the files of a case to a folder and return the folder."""
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
    """Return each case of the golden file."""
    found: dict[str, Any] = request.param
    return found


def test_ids_are_those_of_the_golden_file(case: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = tokenizer_of(case, tmp_path)
    assert {text: tokenizer.encode(text) for text in case["ids"]} == case["ids"]


SENTENCEPIECE_FILES = [
    base64.b64decode(c["files"]["tokenizer.model"]) for c in CASES if c["name"].startswith("sentencepiece")
]


def varint(value: int) -> bytes:
    """Return an integer in the variable-length encoding of protobuf."""
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    """Return a protobuf field with an integer or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def piece(text: str, score: float = 0.0, kind: int = 1) -> bytes:
    """Return a piece of a SentencePiece model as a protobuf field; `kind` 1 is normal, 2 unknown, 3 control."""
    return field(1, field(1, text.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score) + field(3, kind))


PIECES = piece("<unk>", kind=2) + piece("<s>", kind=3) + piece("</s>", kind=3) + piece("▁", -2.0) + piece("a", -1.0)
BPE = field(2, field(3, 2))


def read(folder: Path, data: bytes, size: int = 5, **config: Any) -> LibraryTokenizer:
    """Write a tokenizer.model and read it for a model with `size` tokens."""
    path = folder / "tokenizer.model"
    path.write_bytes(data)
    return sentencepiece_tokenizer(path, read_config(write_config(folder, vocab_size=size)), TokenizerConfig(**config))


def test_sentencepiece_model_of_five_pieces_is_encoded(tmp_path: Path) -> None:
    assert read(tmp_path, PIECES + BPE).encode("aa") == [3, 4, 4]
    assert read(tmp_path, PIECES).encode("aa") == [3, 4, 4]  # the default model type is unigram
    assert read(tmp_path, PIECES + BPE, add_bos_token=True, add_eos_token=True).encode("a") == [1, 3, 4, 2]
    named = {"add_bos_token": True, "marks": (("bos_token", "</s>"),)}
    assert read(tmp_path, PIECES + BPE, **named).encode("a") == [2, 3, 4]
    without_begin_token = PIECES + field(2, field(3, 2) + field(41, 2**64 - 1))  # the id -1: there is no begin token
    assert read(tmp_path, without_begin_token, add_bos_token=True).encode("a") == [3, 4]
    assert read(tmp_path, PIECES + BPE, add_prefix_space=False).encode("a") == [4]
    assert read(tmp_path, PIECES + BPE + field(3, field(3, 0))).encode("a") == [4]


AGAIN = "fetch the file again"


@pytest.mark.parametrize(
    ("data", "message_start"),
    [
        (b"", f"not a SentencePiece model (no pieces in 0 bytes); {AGAIN}"),
        (b"\x80" * 20, f"not a SentencePiece model (no integer at byte 0); {AGAIN}"),
        (field(1, b"")[:-1], f"not a SentencePiece model (no integer at byte 1); {AGAIN}"),
        (b"\x0a\x7f", f"not a SentencePiece model (a field of 127 bytes with 0 left); {AGAIN}"),
        (b"\x0b", f"not a SentencePiece model (wire type 3 at byte 1); {AGAIN}"),
        (field(1, 5), f"not a SentencePiece model (the integer 5 where bytes belong); {AGAIN}"),
        (field(1, field(3, b"ab")), f"not a SentencePiece model (2 bytes where an integer belongs); {AGAIN}"),
        (piece("a", float("nan")), f"not a SentencePiece model (piece 0 with score nan); {AGAIN}"),
        (PIECES + field(2, field(3, 3)), "model type word is not supported; supported: unigram, bpe"),
        (PIECES + field(2, field(24, 1)), "spaces after words or unmarked spaces are not supported"),
        (PIECES + piece("a"), f"the token 'a' is there twice, as 4 and 5; {AGAIN}"),
        (PIECES + field(2, field(40, 9)), f"the unknown token 9 is none of 5; {AGAIN}"),
        (PIECES + BPE + piece("b" * 2000), "a token of 2,000 characters; at most 1,024 can be read"),
        (PIECES + piece("b"), "has 6 tokens, the model 5; use the tokenizer that belongs to the model"),
    ],
)
def test_bad_sentencepiece_file_is_refused(tmp_path: Path, data: bytes, message_start: str) -> None:
    assert refusal(BadModel, read, tmp_path, data).startswith(f"{tmp_path / 'tokenizer.model'}: {message_start}")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(which=st.integers(0, 1), at=st.floats(0, 1, exclude_max=True), new=st.binary(max_size=6), cut=st.booleans())
def test_damaged_sentencepiece_file_is_read_or_refused(
    tmp_path: Path, which: int, at: float, new: bytes, *, cut: bool
) -> None:
    whole = SENTENCEPIECE_FILES[which]
    place = int(at * len(whole))
    data = whole[:place] + new + (b"" if cut else whole[place + len(new) :])
    tokenizer = result_or_refusal(BadModel, read, tmp_path, data, (400, 110)[which])
    if tokenizer is not None:
        ids = result_or_refusal(BadModel, tokenizer.encode, "Once upon é\n😀")
        tokenizer.decode(ids or [])


def test_bad_character_table_is_refused_when_it_is_used(tmp_path: Path) -> None:
    """The library panics only when it encodes; it also writes its own message to standard error."""
    table = struct.pack("<I", 1024) + bytes([0, 1, 2, 255] * 256) + b"a\0"
    message = refusal(BadModel, read(tmp_path, PIECES + field(3, field(2, table))).encode, "é 😀 ab")
    assert message.startswith(f"{tmp_path / 'tokenizer.model'}: not a tokenizer of the tokenizers library (index out")
