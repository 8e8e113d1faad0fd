"""Reader of SentencePiece's ``.model`` files: the fields of sentencepiece_model.proto that encoding needs.

The file is a message in the protocol buffers' wire format (protobuf.dev/programming-guides/encoding): fields one after
another, each a varint ``number << 3 | wire type`` and its value. Field numbers and defaults are those of
github.com/google/sentencepiece, src/sentencepiece_model.proto.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wse.errors import BadModel
from wse.files import read_file
from wse.models.tokenizers.piece_library import Kind, Pieces

FILE_LIMIT_BYTES: Final = 256 * 2**20
MOST_PIECES: Final = 2**24
UNIGRAM, BPE = 1, 2
ALGORITHMS: Final = {UNIGRAM: "unigram", BPE: "bpe", 3: "word", 4: "char"}
VARINT, EIGHT_BYTES, DELIMITED, FOUR_BYTES = 0, 1, 2, 5  # wire types
Value = int | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePieceModel:
    """The contents of a ``.model`` file. ``charsmap`` is its compiled table of character replacements."""

    algorithm: int
    pieces: Pieces
    bos_id: int  # -1 for none, and so is eos_id
    eos_id: int
    charsmap: bytes
    prefix: bool  # a space is put before a text
    single_spaces: bool  # outer spaces are dropped, and all except one of several


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Return the model in a file.

    Raises:
        BadModel: the file is damaged, or asks for what is not supported.
    """
    data = read_file(path, FILE_LIMIT_BYTES, BadModel)
    try:
        return _model(data, str(path))
    except (_Damage, UnicodeDecodeError, struct.error) as error:
        msg = f"{path}: not a SentencePiece model ({error}); fetch the file again"
        raise BadModel(msg) from error


class _Damage(Exception):
    """An error for bytes that are not a valid message, with their position."""


def _model(data: bytes, where: str) -> SentencePieceModel:
    texts: list[str] = []
    scores: list[float] = []
    kinds: list[int] = []
    parts: dict[int, dict[int, Value]] = {2: {}, 3: {}}  # trainer and normalizer
    for number, value in _fields(data):
        if number == 1:
            piece = dict(_fields(_bytes(value)))
            texts.append(_bytes(piece.get(1, b"")).decode("utf-8"))
            scores.append(struct.unpack("<f", _bytes(piece.get(2, bytes(4))))[0])
            kinds.append(_int(piece.get(3, Kind.NORMAL)))
            if len(texts) > MOST_PIECES or not math.isfinite(scores[-1]):
                msg = f"piece {len(texts) - 1:,} with score {scores[-1]:g}"
                raise _Damage(msg)
        elif number in parts:
            parts[number].update(_fields(_bytes(value)))
    if not texts:
        msg = f"no pieces in {len(data):,} bytes"
        raise _Damage(msg)
    trainer, normalizer = parts[2], parts[3]
    algorithm = _int(trainer.get(3, UNIGRAM))
    if algorithm not in (UNIGRAM, BPE):
        msg = f"{where}: model type {ALGORITHMS.get(algorithm, algorithm)} is not supported; supported: unigram, bpe"
        raise BadModel(msg)
    if _int(trainer.get(24, 0)) or not _int(normalizer.get(5, 1)):
        msg = f"{where}: spaces behind words or unmarked spaces are not supported; use the model's tokenizer.json"
        raise BadModel(msg)
    pieces = Pieces(
        texts=texts,
        scores=scores,
        kinds=kinds,
        unknown_id=_id(trainer.get(40, 0)),
        has_bytes=bool(_int(trainer.get(35, 0))),
    )
    return SentencePieceModel(
        algorithm=algorithm,
        pieces=pieces,
        bos_id=_id(trainer.get(41, 1)),
        eos_id=_id(trainer.get(42, 2)),
        charsmap=_bytes(normalizer.get(2, b"")),
        prefix=bool(_int(normalizer.get(3, 1))),
        single_spaces=bool(_int(normalizer.get(4, 1))),
    )


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field; integers are unsigned."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == DELIMITED:
            length, at = _varint(data, at)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            length = 8 if kind == EIGHT_BYTES else 4
        else:
            msg = f"wire type {kind} at byte {at}"
            raise _Damage(msg)
        if length > len(data) - at:
            msg = f"a field of {length:,} bytes with {len(data) - at:,} left"
            raise _Damage(msg)
        yield key >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer of seven bits per byte, lowest first, of at most ten bytes."""
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    msg = f"no integer at byte {at}"
    raise _Damage(msg)


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        msg = f"the integer {value} where bytes belong"
        raise _Damage(msg)
    return value


def _int(value: Value) -> int:
    if not isinstance(value, int):
        msg = f"{len(value)} bytes where an integer belongs"
        raise _Damage(msg)
    return value


def _id(value: Value) -> int:
    """Return an int32; negative ones are written in 64 bits."""
    number = _int(value)
    return number - 2**64 if number >= 2**63 else number
