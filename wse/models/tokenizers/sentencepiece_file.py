"""Read SentencePiece ``.model`` files: the fields of sentencepiece_model.proto needed to encode.

The file is a protocol buffer message (protobuf.dev/programming-guides/encoding). A message is a
sequence of fields. Each field is a varint ``number << 3 | wire type`` and a value. Field numbers
and defaults are those of github.com/google/sentencepiece, src/sentencepiece_model.proto.
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
from wse.models.tokenizers.piece_library import Pieces, PieceType

FILE_LIMIT_BYTES: Final = 256 * 2**20
MAX_PIECES: Final = 2**24
UNIGRAM, BPE = 1, 2
ALGORITHMS: Final = {UNIGRAM: "unigram", BPE: "bpe", 3: "word", 4: "char"}
VARINT, EIGHT_BYTES, DELIMITED, FOUR_BYTES = 0, 1, 2, 5  # wire types
Value = int | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePieceModel:
    """Content of a SentencePiece file.

    Attributes:
        algorithm: UNIGRAM or BPE.
        pieces: The vocabulary.
        bos_id, eos_id: BOS and EOS tokens; -1 if there is none.
        charsmap: Compiled table of character replacements; empty if there are none.
        prefix: Whether to prepend a space to a string.
        single_spaces: Whether leading and trailing spaces are dropped and repeated spaces collapsed
            into one.
    """

    algorithm: int
    pieces: Pieces
    bos_id: int
    eos_id: int
    charsmap: bytes
    prefix: bool
    single_spaces: bool


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Return the tokenizer model in a SentencePiece file.

    Raises:
        BadModel: The file is damaged, or requests a feature that is not supported.
    """
    data = read_file(path, FILE_LIMIT_BYTES, BadModel)
    try:
        return _model(data, str(path))
    except (_Damage, UnicodeDecodeError, struct.error) as error:
        raise BadModel(f"{path}: not a SentencePiece model ({error}); fetch the file again") from error


class _Damage(Exception):
    """Error for bytes that are not a valid protocol buffer message. Its text says where and why."""


def _model(data: bytes, origin: str) -> SentencePieceModel:
    """Parse the content of a SentencePiece file.

    1. Collect the pieces and the trainer and normalizer specifications.
    2. Check that the model is of a supported type.
    3. Build the result, with the format's defaults for absent fields.

    Args:
        data: Content of the file.
        origin: Path of the file, for messages.

    Raises:
        _Damage: The bytes are not a valid message.
        BadModel: The model requests a feature that is not supported.
    """
    texts: list[str] = []
    scores: list[float] = []
    kinds: list[int] = []
    parts: dict[int, dict[int, Value]] = {2: {}, 3: {}}  # trainer and normalizer
    for number, value in _fields(data):  # 1
        if number == 1:
            piece = dict(_fields(_bytes(value)))
            texts.append(_bytes(piece.get(1, b"")).decode("utf-8"))
            scores.append(struct.unpack("<f", _bytes(piece.get(2, bytes(4))))[0])
            kinds.append(_int(piece.get(3, PieceType.NORMAL)))
            if len(texts) > MAX_PIECES or not math.isfinite(scores[-1]):
                raise _Damage(f"piece {len(texts) - 1:,} with score {scores[-1]:g}")
        elif number in parts:
            parts[number].update(_fields(_bytes(value)))
    if not texts:
        raise _Damage(f"no pieces in {len(data):,} bytes")
    trainer, normalizer = parts[2], parts[3]  # 2
    algorithm = _int(trainer.get(3, UNIGRAM))
    if algorithm not in (UNIGRAM, BPE):
        raise BadModel(
            f"{origin}: model type {ALGORITHMS.get(algorithm, algorithm)} is not supported; supported: unigram, bpe"
        )
    if _int(trainer.get(24, 0)) or not _int(normalizer.get(5, 1)):
        raise BadModel(
            f"{origin}: spaces after words or unmarked spaces are not supported; use the model's tokenizer.json"
        )
    pieces = Pieces(  # 3
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
    """Yield the field number and the value of each field of a protocol buffer message.

    Integers are unsigned.
    """
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == VARINT:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        if kind == DELIMITED:
            length, position = _varint(data, position)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            length = 8 if kind == EIGHT_BYTES else 4
        else:
            raise _Damage(f"wire type {kind} at byte {position}")
        if length > len(data) - position:
            raise _Damage(f"a field of {length:,} bytes with {len(data) - position:,} left")
        yield key >> 3, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the variable-length integer at a position, and the position after it.

    Each byte contains seven bits, lowest first. At most ten bytes are read.
    """
    value = 0
    for index, byte in enumerate(data[position : position + 10]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, position + index + 1
    raise _Damage(f"no integer at byte {position}")


def _bytes(value: Value) -> bytes:
    """Return a field value, which must be bytes; raise _Damage for an integer."""
    if not isinstance(value, bytes):
        raise _Damage(f"the integer {value} where bytes belong")
    return value


def _int(value: Value) -> int:
    """Return a field value, which must be an integer; raise _Damage for bytes."""
    if not isinstance(value, int):
        raise _Damage(f"{len(value)} bytes where an integer belongs")
    return value


def _id(value: Value) -> int:
    """Return a field value as a signed 32-bit integer. Negative values are stored in 64 bits."""
    number = _int(value)
    return number - 2**64 if number >= 2**63 else number
