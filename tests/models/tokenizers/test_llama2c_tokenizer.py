from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from tests.models.helpers import llama2c_bytes, result_or_refusal, write_config
from wse.errors import BadInput, BadModel
from wse.models.configs.config import read_config
from wse.models.load import load_model
from wse.models.tokenizers.llama2c_tokenizer import LOWEST_SCORE, Llama2cTokenizer

BYTES = [b"<0x%02X>" % byte for byte in range(256)]
WORDS = [b" ", b"a", b"b", b"ab", b"ba", b" a", b"\xc3\xa9", b"aba", b"abab"]
PIECES = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *BYTES, *WORDS]
SCORES = [0.0] * 259 + [-10.0, -10.0, -10.0, -3.0, -3.0, -4.0, -10.0, -1.0, LOWEST_SCORE]
ID = {piece: i for i, piece in enumerate(PIECES)}


def small(bos: int | None = 1) -> Llama2cTokenizer:
    return Llama2cTokenizer(PIECES, SCORES, bos, (2,))


def reference_encode(text: str) -> list[int]:
    """Scan all pairs for the best, again and again."""
    ids = [1]
    for character in " " + text if text else "":
        raw = character.encode()
        ids += [ID[raw]] if raw in ID else [byte + 3 for byte in raw]
    while True:
        best, best_score = -1, LOWEST_SCORE
        for i in range(len(ids) - 1):
            joint = ID.get(PIECES[ids[i]] + PIECES[ids[i + 1]], -1)
            if joint >= 0 and SCORES[joint] > best_score:
                best, best_score = i, SCORES[joint]
        if best < 0:
            return ids
        ids[best : best + 2] = [ID[PIECES[ids[best]] + PIECES[ids[best + 1]]]]


@settings(max_examples=30, deadline=None)
@given(text=st.text(alphabet="ab é", max_size=40) | st.text(max_size=10))
def test_encoding_is_that_of_the_plain_scan_and_decodes_back(text: str) -> None:
    tokenizer = small()
    ids = tokenizer.encode(text)
    assert ids == reference_encode(text)
    assert small(bos=None).encode(text) == ids[1:]
    assert tokenizer.decode(ids) == text


def test_only_a_space_right_behind_the_begin_token_is_left_out() -> None:
    tokenizer = small()
    assert tokenizer.decode([1, ID[b" a"], ID[b" a"]]) == "a a"
    assert tokenizer.decode([ID[b" a"]]) == " a"
    assert small(bos=None).decode([ID[b" a"]]) == " a"
    assert tokenizer.decode([1, ID[b"a"], 2, 1, ID[b" "], ID[b" a"]]) == "a a"


def test_ids_outside_the_vocabulary_and_half_characters_are_refused() -> None:
    assert "token id 268 is outside the vocabulary" in refusal(BadInput, small().decode, [1, 268])
    refusal(BadInput, small().decode, [-1])
    assert "the text is not Unicode at character 1" in refusal(BadInput, small().encode, "a\udce9")


def test_without_bytes_a_strange_character_is_refused() -> None:
    tokenizer = Llama2cTokenizer([b"<unk>", b" ", b"a"], [0.0] * 3, None, ())
    assert tokenizer.encode("a") == [1, 2]
    assert "the tokenizer has no token for 'b'" in refusal(BadInput, tokenizer.encode, "ab")


def read(folder: Path, data: bytes, vocab_size: int = 16) -> Llama2cTokenizer:
    path = folder / "tokenizer.bin"
    path.write_bytes(data)
    return Llama2cTokenizer.read(path, read_config(write_config(folder, vocab_size=vocab_size)))


GOOD = llama2c_bytes([b"%02d" % i for i in range(16)], [0.0] * 16)
AGAIN = "fetch the file again"
OTHER = f"{AGAIN}, or use the tokenizer that belongs to the model"


@pytest.mark.parametrize(
    ("data", "tail"),
    [
        (b"", f"has 0 bytes, too few for a tokenizer; {AGAIN}"),
        (GOOD[:4], f"ends after 0 of the model's 16 tokens; {OTHER}"),
        (GOOD[:-1], f"ends after 15 of the model's 16 tokens; {OTHER}"),
        (GOOD + b"abc", "has 3 bytes after the model's 16 tokens; use the tokenizer that belongs to the model"),
        (struct.pack("<i", -1) + GOOD[4:], "claims a longest token of -1 bytes, must be 1 to 65,536"),
        (
            GOOD[:4] + struct.pack("<fi", 1.5, -2) + GOOD[12:],
            f"token 0 has score 1.5 and -2 bytes, must be finite and 0 to 2; {AGAIN}",
        ),
        (
            GOOD[:4] + struct.pack("<fi", float("nan"), 2) + GOOD[12:],
            f"token 0 has score nan and 2 bytes, must be finite and 0 to 2; {AGAIN}",
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, data: bytes, tail: str) -> None:
    assert refusal(BadModel, read, tmp_path, data).startswith(f"{tmp_path / 'tokenizer.bin'}: {tail}")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=80)
    | st.builds(
        lambda at, patch: GOOD[:at] + patch + GOOD[at + len(patch) :], st.integers(0, len(GOOD)), st.binary(max_size=8)
    )
)
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    tokenizer = result_or_refusal(BadModel, read, tmp_path, data)
    if tokenizer is not None:
        assert tokenizer.decode(range(16)) is not None


@pytest.mark.parametrize(("data", "model"), [("shared", "stories260k"), ("beside", "stories15m")])
def test_goldens_of_real_models(request: pytest.FixtureRequest, data: str, model: str) -> None:
    folder = request.getfixturevalue(data) / "models" / model
    loaded = load_model(folder)
    for case in json.loads((folder / "golden.json").read_text())["cases"]:
        assert loaded.tokenizer.encode(case["prompt"]) == case["prompt_ids"]
        assert loaded.tokenizer.decode(case["token_ids"]) == case["text"]
        stream = loaded.tokenizer.stream()
        parts = [stream.push(i) for i in case["token_ids"]]
        assert "".join([*parts, stream.finish()]) == case["text"]
