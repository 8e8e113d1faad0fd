"""Tests of tokenizers of llama2.c, and of text that is decoded as a stream of tokens with all kinds of tokenizers."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from tests.hardware.helpers import refusal
from tests.models.helpers import llama2c_bytes, result_or_refusal, write_config
from tests.models.tokenizers.test_json_tokenizer import NO_CONFIG, write_byte_level, write_spelled
from wse.errors import BadInput, BadModel
from wse.models.configs.config import read_config
from wse.models.load import load_model
from wse.models.tokenizers.llama2c_tokenizer import LOWEST_SCORE, Llama2cTokenizer
from wse.models.tokenizers.token_text import Tokenizer
from wse.models.tokenizers.tokenizer import json_tokenizer

BYTES = [b"<0x%02X>" % byte for byte in range(256)]
WORDS = [b" ", b"a", b"b", b"ab", b"ba", b" a", b"\xc3\xa9", b"aba", b"abab"]
PIECES = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *BYTES, *WORDS]
SCORES = [0.0] * 259 + [-10.0, -10.0, -10.0, -3.0, -3.0, -4.0, -10.0, -1.0, LOWEST_SCORE]
ID = {piece: i for i, piece in enumerate(PIECES)}


def small_tokenizer(bos: int | None = 1) -> Llama2cTokenizer:
    """Return a tokenizer with all bytes and a few words; `bos` is the id of its begin token."""
    return Llama2cTokenizer(PIECES, SCORES, bos, (2,))


def reference_encode(text: str) -> list[int]:
    """Encode a text by repeatedly merging the best pair, which is searched among all pairs."""
    ids = [1]
    for character in " " + text if text else "":
        raw = character.encode()
        ids += [ID[raw]] if raw in ID else [byte + 3 for byte in raw]
    while True:
        best, best_score = -1, LOWEST_SCORE
        for i in range(len(ids) - 1):
            merged = ID.get(PIECES[ids[i]] + PIECES[ids[i + 1]], -1)
            if merged >= 0 and SCORES[merged] > best_score:
                best, best_score = i, SCORES[merged]
        if best < 0:
            return ids
        ids[best : best + 2] = [ID[PIECES[ids[best]] + PIECES[ids[best + 1]]]]


@settings(max_examples=30, deadline=None)
@given(text=st.text(alphabet="ab é", max_size=40) | st.text(max_size=10))
def test_encoding_equals_an_exhaustive_search_and_decodes_back(text: str) -> None:
    tokenizer = small_tokenizer()
    ids = tokenizer.encode(text)
    assert ids == reference_encode(text)
    assert small_tokenizer(bos=None).encode(text) == ids[1:]
    assert tokenizer.decode(ids) == text


def test_only_a_space_directly_after_the_begin_token_is_left_out() -> None:
    tokenizer = small_tokenizer()
    assert tokenizer.decode([1, ID[b" a"], ID[b" a"]]) == "a a"
    assert tokenizer.decode([ID[b" a"]]) == " a"
    assert small_tokenizer(bos=None).decode([ID[b" a"]]) == " a"
    assert tokenizer.decode([1, ID[b"a"], 2, 1, ID[b" "], ID[b" a"]]) == "a a"


def test_ids_outside_the_vocabulary_and_lone_surrogates_are_refused() -> None:
    assert "token id 268 is outside the vocabulary" in refusal(BadInput, small_tokenizer().decode, [1, 268])
    refusal(BadInput, small_tokenizer().decode, [-1])
    assert "the text is not Unicode at character 1" in refusal(BadInput, small_tokenizer().encode, "a\udce9")


def test_unknown_character_is_refused_without_byte_tokens() -> None:
    tokenizer = Llama2cTokenizer([b"<unk>", b" ", b"a"], [0.0] * 3, None, ())
    assert tokenizer.encode("a") == [1, 2]
    assert "the tokenizer has no token for 'b'" in refusal(BadInput, tokenizer.encode, "ab")


def read(folder: Path, data: bytes, vocab_size: int = 16) -> Llama2cTokenizer:
    """Write a tokenizer.bin and read it for a model with `vocab_size` tokens."""
    path = folder / "tokenizer.bin"
    path.write_bytes(data)
    return Llama2cTokenizer.read(path, read_config(write_config(folder, vocab_size=vocab_size)))


GOOD = llama2c_bytes([b"%02d" % i for i in range(16)], [0.0] * 16)
AGAIN = "fetch the file again"
USE_OTHER_TOKENIZER = f"{AGAIN}, or use the tokenizer that belongs to the model"


@pytest.mark.parametrize(
    ("data", "tail"),
    [
        (b"", f"has 0 bytes, too few for a tokenizer; {AGAIN}"),
        (GOOD[:4], f"ends after 0 of the model's 16 tokens; {USE_OTHER_TOKENIZER}"),
        (GOOD[:-1], f"ends after 15 of the model's 16 tokens; {USE_OTHER_TOKENIZER}"),
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


@pytest.mark.parametrize(("data", "model"), [("test_data", "stories260k"), ("external_data", "stories15m")])
def test_real_models_encode_and_decode_like_the_goldens(request: pytest.FixtureRequest, data: str, model: str) -> None:
    folder = request.getfixturevalue(data) / "models" / model
    loaded = load_model(folder)
    for case in json.loads((folder / "golden.json").read_text())["cases"]:
        assert loaded.tokenizer.encode(case["prompt"]) == case["prompt_ids"]
        assert loaded.tokenizer.decode(case["token_ids"]) == case["text"]
        stream = loaded.tokenizer.stream()
        parts = [stream.push(i) for i in case["token_ids"]]
        assert "".join([*parts, stream.finish()]) == case["text"]


LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
# GPT-2 maps printable bytes to themselves and all others to characters from U+0100 on, in order.
PRINTABLE_BYTES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHER_BYTES = [byte for byte in range(256) if byte not in PRINTABLE_BYTES]
BYTE_CHARACTERS = {byte: chr(byte) for byte in PRINTABLE_BYTES} | {
    byte: chr(256 + i) for i, byte in enumerate(OTHER_BYTES)
}
TokenizerAndSpell = tuple[Tokenizer, Callable[[bytes], list[int]]]


@pytest.fixture(scope="module", params=["byte-level", "spelled", "llama2.c"])
def tokenizer_and_spell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TokenizerAndSpell:
    """Return a tokenizer and a function that returns the ids that encode each byte separately."""
    folder = tmp_path_factory.mktemp("stream")
    if request.param == "llama2.c":
        return Llama2cTokenizer(PIECES, SCORES, 1, (2,)), lambda data: [byte + 3 for byte in data]
    spelled = request.param == "spelled"
    spec = read_config(write_config(folder, vocab_size=265 if spelled else 259))
    path = (write_spelled if spelled else write_byte_level)(folder / "tokenizer.json")
    tokenizer = json_tokenizer(path, spec, NO_CONFIG)
    return tokenizer, lambda data: [byte + 3 if spelled else LETTERS.index(BYTE_CHARACTERS[byte]) for byte in data]


def streamed_texts(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """Return the text after each id of a stream, and the text at its end."""
    stream = tokenizer.stream()
    return [*map(stream.push, ids), stream.finish()]


CHARACTERS = st.text(alphabet="aé北😀👍🏽\u0301\n ", min_size=1, max_size=8)


@settings(max_examples=25, deadline=None)
@given(parts=st.lists(CHARACTERS.map(str.encode) | st.binary(max_size=5), max_size=6))
def test_streamed_texts_join_to_the_decoded_text(tokenizer_and_spell: TokenizerAndSpell, parts: list[bytes]) -> None:
    tokenizer, spell = tokenizer_and_spell
    ids = spell(b"".join(parts))
    assert "".join(streamed_texts(tokenizer, ids)) == tokenizer.decode(ids)


@settings(max_examples=25, deadline=None)
@given(text=CHARACTERS)
def test_streamed_characters_are_whole(tokenizer_and_spell: TokenizerAndSpell, text: str) -> None:
    """If the bytes arrive one by one, each character is yielded whole and not before its last byte."""
    tokenizer, spell = tokenizer_and_spell
    parts = streamed_texts(tokenizer, spell(text.encode()))
    # Some tokenizers decode a space before the text.
    assert "".join(parts).lstrip(" ") == text.lstrip(" ")
    so_far = ""
    for count, part in enumerate(parts[:-1], 1):
        so_far += part
        assert len(so_far.encode()) <= count
        assert "\ufffd" not in part


def test_complete_character_is_streamed_at_once(tokenizer_and_spell: TokenizerAndSpell) -> None:
    tokenizer, spell = tokenizer_and_spell
    ids = [*tokenizer.encode("a a"), *spell("😀".encode()), *tokenizer.encode("a a", bare=True)]
    parts = streamed_texts(tokenizer, ids)
    assert "".join(parts[: len(tokenizer.encode("a a"))]) == "a a"
    assert "😀" in "".join(parts[:-1])
    assert parts[-1] == ""
