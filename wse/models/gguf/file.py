"""Read GGUF files, versions 2 and 3, little-endian: metadata and locations of tensors.

Every size is checked before it is used.

    4 bytes       "GGUF", then version u32, number of tensors u64, number of metadata items u64
    items         key (text), type u32, value; an array: type of elements u32, number u64, elements
    tensors       name (text), dimensions u32, sizes u64 (innermost first), type u32, offset u64
    the data      starts at the next multiple of general.alignment (32 by default), as each tensor

A text is its number of bytes, u64, and UTF-8. Offsets of tensors count from the start of the data.
Source: docs/gguf.md and ggml.h of github.com/ggml-org/ggml.
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
LONGEST_NAME: Final = 2**16 - 1  # bytes of a key, limited by the format
LONGEST_TEXT: Final = 16 * 2**20
MAX_ITEMS: Final = 2**16
MAX_TENSORS: Final = 2**18
MAX_ARRAY_ELEMENTS: Final = 2**24
MAX_DIMENSIONS: Final = 4
MAX_ELEMENTS: Final = 2**48
LARGEST_ALIGNMENT: Final = 2**20
MAX_NAMED: Final = 10

SCALARS: Final = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
TEXT, ARRAY = 8, 9
LENGTH: Final = struct.Struct("<Q")
"""Number of bytes of a text, stored before the text."""

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
"""ggml's names of tensor types by number (enum ggml_type)."""

SUPPORTED: Final = (*PLAIN, *BLOCK_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufArray:
    """An array in the metadata of a GGUF file, whose elements are read from the file on demand.

    Attributes:
        kind: Type of the elements: a key of `SCALARS`, or TEXT.
        count: Number of elements.
        begin: Offset of the first element in the file.
    """

    kind: int
    count: int
    begin: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """Type, shape and position of a tensor in a GGUF file.

    Attributes:
        name: Name of the tensor.
        kind: Name of its type in ggml, such as Q4_K.
        shape: Shape with the innermost size last.
        begin: Offset of its first byte in the file.
        size_bytes: Number of bytes that it occupies.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    begin: int
    size_bytes: int


class GgufFile:
    """Metadata and tensors of a GGUF file, the model format of llama.cpp.

    Attributes:
        file: The mapped file.
        metadata: Value of each key: bool, int, float, str or `GgufArray`.
        tensors: Location of each tensor, in the order of the file, keyed by name.
    """

    def __init__(self, path: Path) -> None:
        """Map a file into memory, read its metadata and check it.

        Raises:
            BadModel: The file is missing, incomplete, big-endian, one part of several, or violates
                the format; or a tensor has a type that is not supported.
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
        is_valid = isinstance(alignment, int) and 1 <= alignment <= LARGEST_ALIGNMENT and alignment.bit_count() == 1
        if not is_valid:
            reader.fail(f"general.alignment = {alignment!r} must be a power of two up to {LARGEST_ALIGNMENT:,}")
        descriptions = [_read_tensor(reader, alignment) for _ in range(tensor_count)]
        data_begin = -(-reader.position // alignment) * alignment
        self.tensors = _place_tensors(reader, descriptions, data_begin)

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.file.path

    def elements(self, key: str) -> list[Any] | None:
        """Return all elements of a metadata array as a list; None if the key is absent.

        Raises:
            BadModel: The value is not an array, or a text is not UTF-8.
        """
        array = self.metadata.get(key)
        if array is None:
            return None
        reader = _Reader(self.file)
        if not isinstance(array, GgufArray):
            reader.fail(f"{key} must be an array")
        reader.position = array.begin
        if array.kind == TEXT:
            return reader.texts(array.count, LONGEST_TEXT, key)
        scalars = np.frombuffer(self.file.bytes, SCALARS[array.kind], array.count, array.begin)
        return list(scalars.tolist())


class _Reader:
    """A read position in a GGUF file, which advances as values are read.

    Methods raise BadModel if the file ends too early. The message says what was being read, which
    the caller states as ``item_name``.
    """

    def __init__(self, file: MappedFile) -> None:
        self.path, self.position = file.path, 0
        self._bytes = file.bytes.data
        self.size = len(self._bytes)

    def fail(self, fault: str) -> NoReturn:
        """Raise BadModel with the path, the fault, and the advice to download the file again."""
        msg = f"{self.path}: {fault}; {FETCH_AGAIN}"
        raise BadModel(msg)

    def take(self, byte_count: int, item_name: str) -> int:
        """Advance the read position by ``byte_count`` bytes and return the old position.

        Args:
            byte_count: Number of bytes to advance by.
            item_name: What the bytes contain, for the error message.

        Raises:
            BadModel: Fewer than ``byte_count`` bytes are left in the file.
        """
        begin = self.position
        if byte_count > self.size - begin:
            left = self.size - begin
            self.fail(f"ends inside {item_name}: {byte_count:,} bytes wanted at byte {begin:,}, {left:,} are left")
        self.position = begin + byte_count
        return begin

    def scalar(self, struct_format: str, item_name: str) -> Any:
        """Read the number or Boolean at the read position and advance.

        Args:
            struct_format: Format of the value, as in Python's module struct.
            item_name: What the value is, for the error message.
        """
        (value,) = struct.unpack_from(struct_format, self._bytes, self.take(struct.calcsize(struct_format), item_name))
        return value

    def text(self, max_bytes: int, item_name: str) -> str:
        """Read the text at the read position, of at most ``max_bytes`` bytes, and advance."""
        [text] = self.texts(1, max_bytes, item_name)
        return text

    def texts(self, count: int, max_bytes: int, item_name: str) -> list[str]:
        """Return the next texts in the file and advance the read position.

        Args:
            count: Number of texts.
            max_bytes: Maximum bytes of each text.
            item_name: What the texts are, for error messages.
        """
        first, texts = self.position, []
        ranges = list(self.text_ranges(count, max_bytes, item_name))
        data = bytes(self._bytes[first : self.position])
        for begin, length in ranges:
            try:
                texts.append(data[begin - first : begin - first + length].decode())
            except UnicodeDecodeError:
                self.fail(f"{item_name} at byte {begin:,} is not UTF-8")
        return texts

    def text_ranges(self, count: int, max_bytes: int, item_name: str) -> Iterator[tuple[int, int]]:
        """Yield (offset, length) of consecutive texts in the file, without decoding them.

        This is the fast path for vocabularies of many thousand texts. The read position only
        changes when all texts have been yielded or one of them is faulty.

        Args:
            count: Number of texts.
            max_bytes: Maximum bytes of each text.
            item_name: What the texts are, for error messages.
        """
        position, size, file_bytes, length_at = self.position, self.size, self._bytes, LENGTH.unpack_from
        for _ in range(count):
            begin = position + LENGTH.size
            length = length_at(file_bytes, position)[0] if begin <= size else max_bytes + 1
            if length > max_bytes or length > size - begin:
                self.position = position
                self._text_range(max_bytes, item_name)  # raises the error
            yield begin, length
            position = begin + length
        self.position = position

    def _text_range(self, max_bytes: int, item_name: str) -> tuple[int, int]:
        """Return the offset and the length of the text at the read position, and advance past it.

        Raises:
            BadModel: The text is longer than ``max_bytes``, or the file ends too early.
        """
        length = self.scalar("<Q", item_name)
        if length > max_bytes:
            self.fail(f"{item_name} claims {length:,} bytes, the limit is {max_bytes:,}")
        return self.take(length, item_name), length

    def value(self, key: str) -> Any:
        """Return the value of a metadata item. The elements of an array are skipped, not read.

        Args:
            key: Key of the item, for error messages.
        """
        kind = self.scalar("<I", key)
        if kind in SCALARS:
            return self.scalar(SCALARS[kind], key)
        if kind == TEXT:
            return self.text(LONGEST_TEXT, key)
        if kind != ARRAY:
            self.fail(f"{key} is of kind {kind}, which the format does not define")
        kind, count = self.scalar("<I", key), self.scalar("<Q", key)
        if kind not in SCALARS and kind != TEXT:
            self.fail(f"{key} is an array of kind {kind}; numbers and texts are supported")
        if count > MAX_ARRAY_ELEMENTS:
            self.fail(f"{key} claims {count:,} elements, the limit is {MAX_ARRAY_ELEMENTS:,}")
        begin = self.position
        if kind == TEXT:
            for _ in self.text_ranges(count, LONGEST_TEXT, key):
                pass
        else:
            self.take(count * struct.calcsize(SCALARS[kind]), key)
        return GgufArray(kind=kind, count=count, begin=begin)


def _read_head(reader: _Reader) -> tuple[int, int]:
    """Read the start of a GGUF file, and return its numbers of tensors and of metadata items.

    Raises:
        BadModel: The file is not GGUF, or of an unsupported version, or the numbers are
            implausible.
    """
    if reader.scalar("4s", "its first four bytes") != b"GGUF":
        msg = f"{reader.path}: does not begin with 'GGUF'; is it a GGUF file?"
        raise BadModel(msg)
    version = reader.scalar("<I", "the version")
    if version not in (2, 3):
        is_big_endian = version & 0xFFFF == 0
        fault = (
            "is big-endian; convert it to little-endian"
            if is_big_endian
            else f"is GGUF version {version}; supported: 2, 3"
        )
        msg = f"{reader.path}: {fault}"
        raise BadModel(msg)
    tensors, items = reader.scalar("<Q", "the number of tensors"), reader.scalar("<Q", "the number of keys")
    for count, limit, item_name in ((tensors, MAX_TENSORS, "tensors"), (items, MAX_ITEMS, "keys")):
        if count > limit:
            reader.fail(f"claims {count:,} {item_name}, the limit is {limit:,}")
    return tensors, items


def _refuse_parts(path: Path, parts: Any) -> None:
    """Raise BadModel if the file contains only one of several parts of a model."""
    if isinstance(parts, int) and parts > 1:
        msg = f"{path}: is one of {parts} parts of a model; merge them to one file (gguf-split --merge)"
        raise BadModel(msg)


def _read_tensor(reader: _Reader, alignment: int) -> tuple[str, int, tuple[int, ...], int]:
    """Return the name, type number, shape and offset of the tensor at the read position."""
    name = reader.text(LONGEST_NAME, "a tensor's name")
    item_name = f"tensor {name!r}"
    dimensions = reader.scalar("<I", item_name)
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        reader.fail(f"{item_name} has {dimensions:,} dimensions, the limit is {MAX_DIMENSIONS}")
    shape = tuple(reader.scalar("<Q", item_name) for _ in range(dimensions))[::-1]
    if min(shape) < 1 or math.prod(shape) > MAX_ELEMENTS:
        reader.fail(f"{item_name}: shape {list(shape)} is not a list of plausible sizes")
    number, offset = reader.scalar("<I", item_name), reader.scalar("<Q", item_name)
    if offset % alignment:
        reader.fail(f"{item_name} begins at byte {offset:,} of the data, which is not a multiple of {alignment}")
    return name, number, shape, offset


def _place_tensors(
    reader: _Reader, descriptions: list[tuple[str, int, tuple[int, ...], int]], data_begin: int
) -> dict[str, GgufTensor]:
    """Return the position of each tensor in the file, keyed by its name.

    1. Check that all types are supported.
    2. Compute the bytes of each tensor and check that they are inside the file.
    3. Check that no two tensors overlap.

    Args:
        reader: Reader of the file.
        descriptions: Name, type number, shape and offset of each tensor.
        data_begin: Offset of the data in the file.

    Raises:
        BadModel: A check fails, a name is used twice, or rows are not a whole number of blocks.
    """
    kinds_by_name = [(name, TYPES.get(number, f"type {number}")) for name, number, _, _ in descriptions]  # 1
    unsupported = [(name, kind) for name, kind in kinds_by_name if kind not in SUPPORTED]
    if unsupported:
        kinds = ", ".join(sorted({kind for _, kind in unsupported}))
        msg = (
            f"{reader.path}: {len(unsupported)} tensors, {unsupported[0][0]!r} first, are stored as {kinds}, which is "
            f"not supported; supported: {', '.join(SUPPORTED)}"
        )
        raise BadModel(msg)
    tensors: dict[str, GgufTensor] = {}  # 2
    for name, number, shape, offset in descriptions:
        if name in tensors:
            reader.fail(f"tensor {name!r} is there twice")
        kind = TYPES[number]
        size = _stored_bytes(kind, shape)
        if size is None:
            weights = BLOCK_KINDS[kind].weights
            reader.fail(f"tensor {name!r}: rows of {shape[-1]:,} are not whole blocks of {weights} of {kind}")
        begin = data_begin + offset
        if begin + size > reader.size:
            reader.fail(
                f"tensor {name!r} takes {size:,} bytes from byte {begin:,}, the file has {reader.size:,}; "
                "it may be cut short"
            )
        tensors[name] = GgufTensor(name=name, kind=kind, shape=shape, begin=begin, size_bytes=size)
    for first, second in _neighbours(tensors):  # 3
        if first.begin + first.size_bytes > second.begin:
            reader.fail(f"tensors {first.name!r} and {second.name!r} overlap")
    return tensors


def _stored_bytes(kind: str, shape: tuple[int, ...]) -> int | None:
    """Return the size of a tensor in bytes; None if its rows are not a whole number of blocks."""
    if kind in PLAIN:
        return math.prod(shape) * PLAIN[kind].itemsize
    block = BLOCK_KINDS[kind]
    return None if shape[-1] % block.weights else math.prod(shape) // block.weights * block.bytes


def _neighbours(tensors: Mapping[str, GgufTensor]) -> Iterator[tuple[GgufTensor, GgufTensor]]:
    """Yield each pair of tensors that are consecutive in the file."""
    ordered = sorted(tensors.values(), key=lambda tensor: tensor.begin)
    return pairwise(ordered)
