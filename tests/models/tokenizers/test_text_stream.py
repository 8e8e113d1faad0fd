"""Streams of every kind of tokenizer on whole characters, on characters in pieces, and on bytes that are no text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from tests.models.helpers import write_config
from tests.models.tokenizers.test_json_tokenizer import NONE, write_byte_level, write_spelled
from tests.models.tokenizers.test_llama2c_tokenizer import PIECES, SCORES
from wse.models.configs.config import read_config
from wse.models.tokenizers.llama2c_tokenizer import Llama2cTokenizer
from wse.models.tokenizers.token_text import Tokenizer
from wse.models.tokenizers.tokenizer import json_tokenizer

LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
# GPT-2's spelling of bytes: printable ones as they are, the others in order from U+0100 on.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
SPELLING = {byte: chr(byte) for byte in PRINTABLE} | {byte: chr(256 + i) for i, byte in enumerate(OTHERS)}

Made = tuple[Tokenizer, Callable[[bytes], list[int]]]


@pytest.fixture(scope="module", params=["byte-level", "spelled", "llama2.c"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A tokenizer, and the ids that spell any bytes in it one by one."""
    folder = tmp_path_factory.mktemp("stream")
    if request.param == "llama2.c":
        return Llama2cTokenizer(PIECES, SCORES, 1, (2,)), lambda data: [byte + 3 for byte in data]
    spelled = request.param == "spelled"
    spec = read_config(write_config(folder, vocab_size=265 if spelled else 259))
    path = (write_spelled if spelled else write_byte_level)(folder / "tokenizer.json")
    tokenizer = json_tokenizer(path, spec, NONE)
    return tokenizer, lambda data: [byte + 3 if spelled else LETTERS.index(SPELLING[byte]) for byte in data]


def pushed(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    stream = tokenizer.stream()
    return [*map(stream.push, ids), stream.finish()]


CHARACTERS = st.text(alphabet="aé北😀👍🏽\u0301\n ", min_size=1, max_size=8)


@settings(max_examples=25, deadline=None)
@given(parts=st.lists(CHARACTERS.map(str.encode) | st.binary(max_size=5), max_size=6))
def test_any_bytes_join_to_what_decode_says(made: Made, parts: list[bytes]) -> None:
    tokenizer, spell = made
    ids = spell(b"".join(parts))
    assert "".join(pushed(tokenizer, ids)) == tokenizer.decode(ids)


@settings(max_examples=25, deadline=None)
@given(text=CHARACTERS)
def test_no_character_in_pieces_is_replaced(made: Made, text: str) -> None:
    """Byte by byte, each character comes whole, no earlier than its last byte."""
    tokenizer, spell = made
    parts = pushed(tokenizer, spell(text.encode()))
    assert "".join(parts).lstrip(" ") == text.lstrip(" ")  # some take a space for the one before a text
    so_far = ""
    for count, part in enumerate(parts[:-1], 1):
        so_far += part
        assert len(so_far.encode()) <= count
        assert "\ufffd" not in part


def test_a_whole_character_does_not_wait(made: Made) -> None:
    tokenizer, spell = made
    ids = [*tokenizer.encode("a a"), *spell("😀".encode()), *tokenizer.encode("a a", bare=True)]
    parts = pushed(tokenizer, ids)
    assert "".join(parts[: len(tokenizer.encode("a a"))]) == "a a"
    assert "😀" in "".join(parts[:-1])
    assert parts[-1] == ""
