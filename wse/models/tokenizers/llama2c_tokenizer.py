"""The binary tokenizer of llama2.c: scored pieces, merged greedily.

    int32             length in bytes of the longest piece
    once per token    float32 score, int32 length, the piece's bytes

All little-endian. Byte b has the piece ``<0xBB>`` and the id b + 3.
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
FIRST_BYTE_ID: Final = 3  # behind unknown, begin and end
LOWEST_SCORE: Final = -1e10  # a pair that scores no higher never merges
BYTE_PIECES: Final = tuple(b"<0x%02X>" % byte for byte in range(256))


class Llama2cTokenizer:
    """The tokenizer format of llama2.c: pieces and scores by token id. It has no chat template."""

    chat: ChatTemplate | None = None

    def __init__(
        self, pieces: Sequence[bytes], scores: Sequence[float], bos_id: int | None, eos_ids: Sequence[int]
    ) -> None:
        self._pieces = tuple(pieces)
        self._scores = tuple(scores)
        self._bos_id = bos_id
        self._special_ids = frozenset(eos_ids) | ({bos_id} if bos_id is not None else set())
        self._ids = {piece: i for i, piece in reversed(list(enumerate(self._pieces)))}  # first of equals
        self._has_bytes = self._pieces[FIRST_BYTE_ID : FIRST_BYTE_ID + 256] == BYTE_PIECES
        raw = {piece: bytes([byte]) for byte, piece in enumerate(BYTE_PIECES)}
        self._texts = tuple(raw.get(piece, piece) for piece in self._pieces)

    @classmethod
    def read(cls, path: Path, spec: ModelSpec) -> Llama2cTokenizer:
        """Return the tokenizer in ``path``, which must have exactly the ``spec``'s vocabulary.

        Raises:
            BadModel: the file is missing, cut short, damaged, or has another number of tokens.
        """
        pieces, scores = _parse(path, read_file(path, FILE_LIMIT_BYTES, BadModel), spec.vocab_size)
        return cls(pieces, scores, spec.bos_token_id, spec.eos_token_ids)

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self._pieces)

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Return the begin token, at which llama2.c stops."""
        return () if self._bos_id is None else (self._bos_id,)

    def encode(self, text: str, *, bare: bool = False) -> list[int]:
        """Return the ids of ``text``: begin token (unless ``bare``), a space, then the best pairs merged.

        Raises:
            BadInput: a character has no token and the vocabulary no bytes to spell it.
        """
        ids = [] if bare or self._bos_id is None else [self._bos_id]
        if text:
            for character in " " + checked_text(text):
                ids += self._spell(character)
        return self._merge(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``, without a space directly after the begin token.

        Begin and end tokens have no text. Bytes that form no character become U+FFFD.
        """
        stream = self.stream()
        return "".join([*map(stream.push, ids), stream.finish()])

    def stream(self) -> Llama2cStream:
        """Return a stream at the beginning of a text."""
        return Llama2cStream(self)

    def text_bytes(self, token_id: int, previous_id: int | None) -> bytes:
        """Return the bytes that ``token_id`` adds after ``previous_id``."""
        check_id(token_id, self.vocab_size)
        if token_id in self._special_ids:
            return b""
        text = self._texts[token_id]
        after_begin = previous_id is not None and previous_id == self._bos_id
        return text[1:] if after_begin and text.startswith(b" ") else text

    def _spell(self, character: str) -> list[int]:
        piece = character.encode("utf-8")
        if piece in self._ids:
            return [self._ids[piece]]
        if not self._has_bytes:
            msg = f"the tokenizer has no token for {character!r}; leave it out, or give token ids"
            raise BadInput(msg)
        return [FIRST_BYTE_ID + byte for byte in piece]

    def _merge(self, ids: list[int]) -> list[int]:
        """Repeatedly replace the adjacent pair whose joint piece has the best score, the leftmost of equals.

        A heap of candidate pairs over a linked list: a stale candidate is one whose ids have changed.
        """
        following = [*range(1, len(ids) + 1)]
        preceding = [*range(-1, len(ids) - 1)]
        alive: list[int | None] = [*ids]
        heap: list[tuple[float, int, int, int, int]] = []

        def offer(first: int) -> None:
            second = following[first] if first >= 0 else len(ids)
            if second >= len(ids):
                return
            a, b = alive[first], alive[second]
            assert a is not None
            assert b is not None
            joint = self._ids.get(self._pieces[a] + self._pieces[b])
            if joint is not None and self._scores[joint] > LOWEST_SCORE:
                heapq.heappush(heap, (-self._scores[joint], first, a, b, joint))

        for first in range(len(ids)):
            offer(first)
        while heap:
            _, first, a, b, joint = heapq.heappop(heap)
            second = following[first]
            if alive[first] != a or second >= len(ids) or alive[second] != b:
                continue
            alive[first], alive[second] = joint, None
            following[first] = following[second]
            if following[first] < len(ids):
                preceding[following[first]] = first
            offer(first)
            offer(preceding[first])
        return [i for i in alive if i is not None]


class Llama2cStream:
    """A stream that joins the bytes of tokens and returns whole characters."""

    def __init__(self, tokenizer: Llama2cTokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._previous_id: int | None = None

    def push(self, token_id: int) -> str:
        """Return the characters that ``token_id`` completes."""
        data = self._tokenizer.text_bytes(token_id, self._previous_id)
        self._previous_id = token_id
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Return a replacement character for remaining bytes, or ""."""
        return self._decoder.decode(b"", final=True)


def _parse(path: Path, data: bytes, vocab_size: int) -> tuple[list[bytes], list[float]]:
    if len(data) < 4:
        msg = f"{path}: has {len(data)} bytes, too few for a tokenizer; fetch the file again"
        raise BadModel(msg)
    (longest,) = struct.unpack_from("<i", data)
    if not 0 < longest <= LONGEST_PIECE_BYTES:
        msg = (
            f"{path}: claims a longest token of {longest:,} bytes, must be 1 to {LONGEST_PIECE_BYTES:,}; "
            "is it a llama2.c tokenizer?"
        )
        raise BadModel(msg)
    pieces: list[bytes] = []
    scores: list[float] = []
    at = 4
    while at < len(data) and len(pieces) < vocab_size:
        if at + 8 > len(data):
            raise _cut_short(path, len(pieces), vocab_size)
        score, length = struct.unpack_from("<fi", data, at)
        if not math.isfinite(score) or not 0 <= length <= longest:
            msg = (
                f"{path}: token {len(pieces)} has score {score:g} and {length:,} bytes, "
                f"must be finite and 0 to {longest}; fetch the file again"
            )
            raise BadModel(msg)
        at += 8
        if at + length > len(data):
            raise _cut_short(path, len(pieces), vocab_size)
        pieces.append(data[at : at + length])
        scores.append(score)
        at += length
    if len(pieces) < vocab_size:
        raise _cut_short(path, len(pieces), vocab_size)
    if at != len(data):
        msg = (
            f"{path}: has {len(data) - at:,} bytes behind the model's {vocab_size:,} tokens; "
            "use the tokenizer that belongs to the model"
        )
        raise BadModel(msg)
    return pieces, scores


def _cut_short(path: Path, count: int, vocab_size: int) -> BadModel:
    return BadModel(
        f"{path}: ends after {count:,} of the model's {vocab_size:,} tokens; "
        "fetch the file again, or use the tokenizer that belongs to the model"
    )
