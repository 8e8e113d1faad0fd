"""Reader of GGUF 2 and 3, little-endian: metadata and tensors, every size checked before anything is read by it.

    4 bytes       "GGUF", then version u32, number of tensors u64, number of metadata items u64
    items         key (text), kind u32, value; an array: kind of its elements u32, number u64, elements
    tensors       name (text), dimensions u32, sizes u64 (the innermost first), type u32, offset u64 into the data
    the data      begins at the next multiple of general.alignment (32 by default), as every tensor does

A text is its number of bytes u64 and UTF-8. Source: docs/gguf.md and ggml.h of github.com/ggml-org/ggml.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

import ml_dtypes
import numpy as np

from wse.errors import BadModel
from wse.models.gguf.blocks import BLOCK_KINDS
from wse.models.tensors.tensor_entry import MappedFile

FETCH_AGAIN: Final = "fetch the file again"
LONGEST_NAME: Final = 2**16 - 1  # bytes of a key; the format's own limit
LONGEST_TEXT: Final = 16 * 2**20
MOST_ITEMS: Final = 2**16
MOST_TENSORS: Final = 2**18
MOST_ARRAY_ELEMENTS: Final = 2**24
MOST_DIMENSIONS: Final = 4
MOST_ELEMENTS: Final = 2**48
LARGEST_ALIGNMENT: Final = 2**20
MOST_NAMED: Final = 10

SCALARS: Final = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
TEXT, ARRAY = 8, 9
LENGTH: Final = struct.Struct("<Q")
"""The bytes of a text that follow."""

PLAIN: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16)}
)
TYPES: Final = dict(
    enumerate(
        (
            *("F32", "F16", "Q4_0", "Q4_1", "Q4_2", "Q4_3", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K"),
            *("Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS"),
            *("I8", "I16", "I32", "I64", "F64", "IQ1_M", "BF16", "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0"),
            *("IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4", "NVFP4"),
        )
    )
)
"""ggml's types by number (enum ggml_type)."""

SUPPORTED: Final = (*PLAIN, *BLOCK_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufArray:
    """An array of metadata that stays in the file until it is read; ``begin`` is the byte of its first element.

    ``kind`` is a key of `SCALARS`, or TEXT.
    """

    kind: int
    count: int
    begin: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """A tensor of the file: ``shape`` with the innermost size last, and the bytes that it occupies."""

    name: str
    kind: str
    shape: tuple[int, ...]
    begin: int
    size_bytes: int


class GgufFile:
    """A GGUF file's content. ``metadata`` values are bool, int, float, str or GgufArray."""

    def __init__(self, path: Path) -> None:
        """Map and check a file.

        Raises:
            BadModel: it is missing, cut short, big-endian, in parts, or breaks the format, or a tensor is of a type
                that is not supported.
        """
        self.file = MappedFile(path)
        reader = _Reader(self.file)
        tensor_count, item_count = _read_head(reader)
        self.metadata: dict[str, Any] = {}
        for _ in range(item_count):
            key = reader.text(LONGEST_NAME, "a key")
            if key in self.metadata:
                reader.fail(f"the key {key!r} is given twice")
            self.metadata[key] = reader.value(key)
        _refuse_parts(path, self.metadata.get("split.count"))
        alignment = self.metadata.get("general.alignment", 32)
        good = isinstance(alignment, int) and 1 <= alignment <= LARGEST_ALIGNMENT and alignment.bit_count() == 1
        if not good:
            reader.fail(f"general.alignment = {alignment!r} must be a power of two up to {LARGEST_ALIGNMENT:,}")
        raw = [_read_tensor(reader, alignment) for _ in range(tensor_count)]
        data_begin = -(-reader.at // alignment) * alignment
        self.tensors = _place_tensors(reader, raw, data_begin)

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.file.path

    def elements(self, key: str) -> list[Any] | None:
        """Return the elements of an array of metadata; None where there is no such key.

        Raises:
            BadModel: the value is no array, or a text is not UTF-8.
        """
        array = self.metadata.get(key)
        if array is None:
            return None
        reader = _Reader(self.file)
        if not isinstance(array, GgufArray):
            reader.fail(f"{key} must be an array")
        reader.at = array.begin
        if array.kind == TEXT:
            return reader.texts(array.count, LONGEST_TEXT, key)
        scalars = np.frombuffer(self.file.bytes, SCALARS[array.kind], array.count, array.begin)
        return list(scalars.tolist())


class _Reader:
    """A read position in the file that advances as values are read."""

    def __init__(self, file: MappedFile) -> None:
        self.path, self.at = file.path, 0
        self._bytes = file.bytes.data
        self.size = len(self._bytes)

    def fail(self, what: str) -> NoReturn:
        """Refuse the file."""
        msg = f"{self.path}: {what}; {FETCH_AGAIN}"
        raise BadModel(msg)

    def take(self, count: int, what: str) -> int:
        """Advance the read position by ``count`` bytes and return the old position."""
        begin = self.at
        if count > self.size - begin:
            self.fail(f"ends inside {what}: {count:,} bytes wanted at byte {begin:,}, {self.size - begin:,} are left")
        self.at = begin + count
        return begin

    def scalar(self, code: str, what: str) -> Any:
        """Return a number or a truth value."""
        (value,) = struct.unpack_from(code, self._bytes, self.take(struct.calcsize(code), what))
        return value

    def text(self, longest: int, what: str) -> str:
        """Return a text of at most ``longest`` bytes."""
        [text] = self.texts(1, longest, what)
        return text

    def texts(self, count: int, longest: int, what: str) -> list[str]:
        """Return the next ``count`` texts, one after another, each of at most ``longest`` bytes."""
        first, found = self.at, []
        stretches = list(self.stretches(count, longest, what))
        whole = bytes(self._bytes[first : self.at])
        for begin, length in stretches:
            try:
                found.append(whole[begin - first : begin - first + length].decode())
            except UnicodeDecodeError:
                self.fail(f"{what} at byte {begin:,} is not UTF-8")
        return found

    def stretches(self, count: int, longest: int, what: str) -> Iterator[tuple[int, int]]:
        """Return the first byte and the length of ``count`` consecutive texts."""
        at, size, file_bytes, length_at = self.at, self.size, self._bytes, LENGTH.unpack_from
        for _ in range(count):
            begin = at + LENGTH.size
            length = length_at(file_bytes, at)[0] if begin <= size else longest + 1
            if length > longest or length > size - begin:
                self.at = at
                self._stretch(longest, what)  # says what is wrong
            yield begin, length
            at = begin + length
        self.at = at

    def _stretch(self, longest: int, what: str) -> tuple[int, int]:
        length = self.scalar("<Q", what)
        if length > longest:
            self.fail(f"{what} claims {length:,} bytes, the limit is {longest:,}")
        return self.take(length, what), length

    def value(self, key: str) -> Any:
        """Return the kind and the value of one item; arrays are skipped."""
        kind = self.scalar("<I", key)
        if kind in SCALARS:
            return self.scalar(SCALARS[kind], key)
        if kind == TEXT:
            return self.text(LONGEST_TEXT, key)
        if kind != ARRAY:
            self.fail(f"{key} is of kind {kind}, which is none of the format")
        kind, count = self.scalar("<I", key), self.scalar("<Q", key)
        if kind not in SCALARS and kind != TEXT:
            self.fail(f"{key} is an array of kind {kind}; numbers and texts are supported")
        if count > MOST_ARRAY_ELEMENTS:
            self.fail(f"{key} claims {count:,} elements, the limit is {MOST_ARRAY_ELEMENTS:,}")
        begin = self.at
        if kind == TEXT:
            for _ in self.stretches(count, LONGEST_TEXT, key):
                pass
        else:
            self.take(count * struct.calcsize(SCALARS[kind]), key)
        return GgufArray(kind=kind, count=count, begin=begin)


def _read_head(reader: _Reader) -> tuple[int, int]:
    """Return the numbers of tensors and of metadata items."""
    if reader.scalar("4s", "its first four bytes") != b"GGUF":
        msg = f"{reader.path}: does not begin with 'GGUF'; is it a GGUF file?"
        raise BadModel(msg)
    version = reader.scalar("<I", "the version")
    if version not in (2, 3):
        big = version & 0xFFFF == 0
        what = "is big-endian; convert it to little-endian" if big else f"is GGUF version {version}; supported: 2, 3"
        msg = f"{reader.path}: {what}"
        raise BadModel(msg)
    tensors, items = reader.scalar("<Q", "the number of tensors"), reader.scalar("<Q", "the number of keys")
    for count, most, what in ((tensors, MOST_TENSORS, "tensors"), (items, MOST_ITEMS, "keys")):
        if count > most:
            reader.fail(f"claims {count:,} {what}, the limit is {most:,}")
    return tensors, items


def _refuse_parts(path: Path, parts: Any) -> None:
    if isinstance(parts, int) and parts > 1:
        msg = f"{path}: is one of {parts} parts of a model; merge them to one file (gguf-split --merge)"
        raise BadModel(msg)


def _read_tensor(reader: _Reader, alignment: int) -> tuple[str, int, tuple[int, ...], int]:
    """Return name, type, shape and offset of one tensor."""
    name = reader.text(LONGEST_NAME, "a tensor's name")
    where = f"tensor {name!r}"
    dimensions = reader.scalar("<I", where)
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        reader.fail(f"{where} has {dimensions:,} dimensions, the limit is {MOST_DIMENSIONS}")
    shape = tuple(reader.scalar("<Q", where) for _ in range(dimensions))[::-1]
    if min(shape) < 1 or math.prod(shape) > MOST_ELEMENTS:
        reader.fail(f"{where}: shape {list(shape)} is not a list of plausible sizes")
    number, offset = reader.scalar("<I", where), reader.scalar("<Q", where)
    if offset % alignment:
        reader.fail(f"{where} begins at byte {offset:,} of the data, which is no multiple of {alignment}")
    return name, number, shape, offset


def _place_tensors(
    reader: _Reader, raw: list[tuple[str, int, tuple[int, ...], int]], data_begin: int
) -> dict[str, GgufTensor]:
    """Return the tensors by name in the order of the file, each with its own bytes."""
    unsupported = [(name, TYPES.get(number, f"type {number}")) for name, number, _, _ in raw]
    unsupported = [(name, kind) for name, kind in unsupported if kind not in SUPPORTED]
    if unsupported:
        kinds = ", ".join(sorted({kind for _, kind in unsupported}))
        msg = (
            f"{reader.path}: {len(unsupported)} tensors, {unsupported[0][0]!r} first, are stored as {kinds}, which is "
            f"not supported; supported: {', '.join(SUPPORTED)}"
        )
        raise BadModel(msg)
    tensors: dict[str, GgufTensor] = {}
    for name, number, shape, offset in raw:
        if name in tensors:
            reader.fail(f"tensor {name!r} is there twice")
        kind = TYPES[number]
        size = _stored_bytes(kind, shape)
        if size is None:
            weights = BLOCK_KINDS[kind].weights
            reader.fail(f"tensor {name!r}: rows of {shape[-1]:,} are no whole blocks of {weights} of {kind}")
        begin = data_begin + offset
        if begin + size > reader.size:
            reader.fail(
                f"tensor {name!r} takes {size:,} bytes from byte {begin:,}, the file has {reader.size:,}; "
                "it may be cut short"
            )
        tensors[name] = GgufTensor(name=name, kind=kind, shape=shape, begin=begin, size_bytes=size)
    for before, after in _neighbours(tensors):
        if before.begin + before.size_bytes > after.begin:
            reader.fail(f"tensors {before.name!r} and {after.name!r} overlap")
    return tensors


def _stored_bytes(kind: str, shape: tuple[int, ...]) -> int | None:
    """Return the bytes of a tensor; None where rows are not whole blocks."""
    if kind in PLAIN:
        return math.prod(shape) * PLAIN[kind].itemsize
    block = BLOCK_KINDS[kind]
    return None if shape[-1] % block.weights else math.prod(shape) // block.weights * block.bytes


def _neighbours(tensors: Mapping[str, GgufTensor]) -> Iterator[tuple[GgufTensor, GgufTensor]]:
    ordered = sorted(tensors.values(), key=lambda tensor: tensor.begin)
    return pairwise(ordered)
