"""The binary tokenizer of llama2.c, whose pieces have scores and are merged greedily.

    int32             length in bytes of the longest piece
    for each token    float32 score, int32 length, the bytes of the piece

All numbers are little-endian. Byte b has the piece ``<0xBB>`` and the id b + 3.
"""

from __future__ import annotations

import codecs
import heapq
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wse.errors import BadInput, BadModel
from wse.files import read_file
from wse.models.spec import ModelSpec
from wse.models.tokenizers.chat_template import ChatTemplate
from wse.models.tokenizers.token_text import check_id, checked_text

FILE_LIMIT_BYTES: Final = 256 * 2**20
LONGEST_PIECE_BYTES: Final = 2**16
FIRST_BYTE_ID: Final = 3  # after the unknown, BOS and EOS tokens
LOWEST_SCORE: Final = -1e10  # pairs with this score or a lower one never merge
BYTE_PIECES: Final = tuple(b"<0x%02X>" % byte for byte in range(256))


class Llama2cTokenizer:
    """A tokenizer in the llama2.c format, which stores the bytes and the score of each token."""

    chat: ChatTemplate | None = None

    def __init__(
        self, pieces: Sequence[bytes], scores: Sequence[float], bos_id: int | None, eos_ids: Sequence[int]
    ) -> None:
        """Create a tokenizer.

        Args:
            pieces: Bytes of each token; the index is the token id.
            scores: Score of each token; the index is the token id.
            bos_id: BOS token; None if there is none.
            eos_ids: EOS tokens.
        """
        self._pieces = tuple(pieces)
        self._scores = tuple(scores)
        self._bos_id = bos_id
        self._special_ids = frozenset(eos_ids) | ({bos_id} if bos_id is not None else set())
        self._ids = {piece: i for i, piece in reversed(list(enumerate(self._pieces)))}  # the first of equal pieces
        self._has_bytes = self._pieces[FIRST_BYTE_ID : FIRST_BYTE_ID + 256] == BYTE_PIECES
        byte_of_piece = {piece: bytes([byte]) for byte, piece in enumerate(BYTE_PIECES)}
        self._texts = tuple(byte_of_piece.get(piece, piece) for piece in self._pieces)

    @classmethod
    def read(cls, path: Path, spec: ModelSpec) -> Llama2cTokenizer:
        """Read a llama2.c tokenizer file.

        Args:
            path: Path of the file.
            spec: The model, whose number of tokens the file must match exactly.

        Raises:
            BadModel: The file is missing, incomplete, damaged, or has the wrong number of tokens.
        """
        pieces, scores = _parse(path, read_file(path, FILE_LIMIT_BYTES, BadModel), spec.vocab_size)
        return cls(pieces, scores, spec.bos_token_id, spec.eos_token_ids)

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self._pieces)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Tokens that end a sequence, in addition to those of the model's config.

        As in llama2.c, this is the BOS token; () if there is none.
        """
        return () if self._bos_id is None else (self._bos_id,)

    def encode(self, text: str, *, bare: bool = False) -> list[int]:
        """Return the token ids of a string.

        A space is prepended to the text, which is then split into characters. The adjacent pair of
        tokens with the best score is merged repeatedly until no pair can be merged.

        Args:
            text: Text to encode.
            bare: True to return only the tokens of the string itself, without a BOS token.

        Raises:
            BadInput: A character has no token and the vocabulary has no byte tokens.
        """
        ids = [] if bare or self._bos_id is None else [self._bos_id]
        if text:
            for character in " " + checked_text(text):
                ids += self._spell(character)
        return self._merge(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode token ids to text.

        A space directly after the BOS token is dropped. BOS and EOS tokens have no text. Bytes that
        are not valid UTF-8 become U+FFFD.
        """
        stream = self.stream()
        return "".join([*map(stream.push, ids), stream.finish()])

    def stream(self) -> Llama2cStream:
        """Return a streaming decoder for a new sequence."""
        return Llama2cStream(self)

    def text_bytes(self, token_id: int, previous_id: int | None) -> bytes:
        """Return the bytes that a token adds to the decoded text.

        BOS and EOS tokens add nothing, and a space directly after the BOS token is dropped.

        Args:
            token_id: Id of the token.
            previous_id: Id of the previous token; None at the start.
        """
        check_id(token_id, self.vocab_size)
        if token_id in self._special_ids:
            return b""
        text = self._texts[token_id]
        after_begin = previous_id is not None and previous_id == self._bos_id
        return text[1:] if after_begin and text.startswith(b" ") else text

    def _spell(self, character: str) -> list[int]:
        """Return the token of a character, or else the tokens of its UTF-8 bytes.

        Raises:
            BadInput: The vocabulary has neither.
        """
        piece = character.encode("utf-8")
        if piece in self._ids:
            return [self._ids[piece]]
        if not self._has_bytes:
            raise BadInput(f"the tokenizer has no token for {character!r}; leave it out, or give token ids")
        return [FIRST_BYTE_ID + byte for byte in piece]

    def _merge(self, ids: list[int]) -> list[int]:
        """Repeatedly merge the adjacent pair of tokens whose merged piece has the best score.

        Among equally good pairs, the leftmost is merged first. The algorithm uses a heap of
        candidate pairs and a linked list of tokens:

        1. Add every pair of adjacent tokens to the heap.
        2. Take the best candidate. Skip it if one of its tokens has changed since it was added.
        3. Merge the pair, and add the new token's pairs with both neighbours to the heap.
        """
        next_index = [*range(1, len(ids) + 1)]
        previous_index = [*range(-1, len(ids) - 1)]
        tokens: list[int | None] = [*ids]
        heap: list[tuple[float, int, int, int, int]] = []

        def offer(first: int) -> None:
            """Add the pair of a token and its successor to the heap, if the two can be merged."""
            second = next_index[first] if first >= 0 else len(ids)
            if second >= len(ids):
                return
            a, b = tokens[first], tokens[second]
            assert a is not None
            assert b is not None
            merged = self._ids.get(self._pieces[a] + self._pieces[b])
            if merged is not None and self._scores[merged] > LOWEST_SCORE:
                heapq.heappush(heap, (-self._scores[merged], first, a, b, merged))

        for first in range(len(ids)):  # 1
            offer(first)
        while heap:  # 2
            _, first, a, b, merged = heapq.heappop(heap)
            second = next_index[first]
            if tokens[first] != a or second >= len(ids) or tokens[second] != b:
                continue
            tokens[first], tokens[second] = merged, None  # 3
            next_index[first] = next_index[second]
            if next_index[first] < len(ids):
                previous_index[next_index[first]] = first
            offer(first)
            offer(previous_index[first])
        return [i for i in tokens if i is not None]


class Llama2cStream:
    """A streaming decoder that collects the bytes of tokens and returns whole characters."""

    def __init__(self, tokenizer: Llama2cTokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._previous_id: int | None = None

    def push(self, token_id: int) -> str:
        """Add a token and return the characters that it completes, possibly ""."""
        data = self._tokenizer.text_bytes(token_id, self._previous_id)
        self._previous_id = token_id
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Return replacement characters for the bytes of an incomplete character, or ""."""
        return self._decoder.decode(b"", final=True)


def _parse(path: Path, data: bytes, vocab_size: int) -> tuple[list[bytes], list[float]]:
    """Return the bytes and the score of each token in a llama2.c tokenizer file.

    Args:
        path: Path of the file, for messages.
        data: Content of the file.
        vocab_size: Number of tokens that the file must have.

    Raises:
        BadModel: The file is incomplete or damaged, or has the wrong number of tokens.
    """
    if len(data) < 4:
        raise BadModel(f"{path}: has {len(data)} bytes, too few for a tokenizer; fetch the file again")
    (max_length,) = struct.unpack_from("<i", data)
    if not 0 < max_length <= LONGEST_PIECE_BYTES:
        raise BadModel(
            f"{path}: claims a longest token of {max_length:,} bytes, must be 1 to {LONGEST_PIECE_BYTES:,}; "
            "is it a llama2.c tokenizer?"
        )
    pieces: list[bytes] = []
    scores: list[float] = []
    position = 4
    while position < len(data) and len(pieces) < vocab_size:
        if position + 8 > len(data):
            raise _cut_short(path, len(pieces), vocab_size)
        score, length = struct.unpack_from("<fi", data, position)
        if not math.isfinite(score) or not 0 <= length <= max_length:
            raise BadModel(
                f"{path}: token {len(pieces)} has score {score:g} and {length:,} bytes, "
                f"must be finite and 0 to {max_length}; fetch the file again"
            )
        position += 8
        if position + length > len(data):
            raise _cut_short(path, len(pieces), vocab_size)
        pieces.append(data[position : position + length])
        scores.append(score)
        position += length
    if len(pieces) < vocab_size:
        raise _cut_short(path, len(pieces), vocab_size)
    if position != len(data):
        raise BadModel(
            f"{path}: has {len(data) - position:,} bytes after the model's {vocab_size:,} tokens; "
            "use the tokenizer that belongs to the model"
        )
    return pieces, scores


def _cut_short(path: Path, count: int, vocab_size: int) -> BadModel:
    """Build the error for a file that ends before its last token.

    Args:
        path: Path of the file.
        count: Number of complete tokens in the file.
        vocab_size: Number of tokens that the file must have.
    """
    return BadModel(
        f"{path}: ends after {count:,} of the model's {vocab_size:,} tokens; "
        "fetch the file again, or use the tokenizer that belongs to the model"
    )
