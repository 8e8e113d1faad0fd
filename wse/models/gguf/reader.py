"""Reader of numbers, strings and metadata values at a read position in a GGUF file.

Every size is checked before it is used. ``wse.models.gguf.file`` describes the format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from wse.errors import BadModel
from wse.models.tensors.tensor_entry import MappedFile

FETCH_AGAIN: Final = "fetch the file again"
LONGEST_NAME: Final = 2**16 - 1  # bytes of a key, limited by the format
LONGEST_TEXT: Final = 16 * 2**20
MAX_ARRAY_ELEMENTS: Final = 2**24

SCALARS: Final = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
TEXT, ARRAY = 8, 9
LENGTH: Final = struct.Struct("<Q")
"""Format of the number of bytes of a string, which is stored before the string."""


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


class GgufReader:
    """A read position in a GGUF file, which advances as values are read.

    Methods raise BadModel if the file ends too early. The message names what was being read, which
    callers pass as ``item_name``.
    """

    def __init__(self, file: MappedFile) -> None:
        self.path, self.position = file.path, 0
        self._bytes = file.bytes.data
        self.size = len(self._bytes)

    def fail(self, fault: str) -> NoReturn:
        """Raise BadModel with the path, the fault, and the advice to download the file again."""
        raise BadModel(f"{self.path}: {fault}; {FETCH_AGAIN}")

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
        """Read the string at the read position, of at most ``max_bytes`` bytes, and advance.

        Args:
            max_bytes: Maximum size of the string.
            item_name: What the string is, for the error message.
        """
        [text] = self.texts(1, max_bytes, item_name)
        return text

    def texts(self, count: int, max_bytes: int, item_name: str) -> list[str]:
        """Return the next strings in the file and advance the read position.

        Args:
            count: Number of strings.
            max_bytes: Maximum bytes per string.
            item_name: What the strings are, for error messages.
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
        """Yield (offset, length) of consecutive strings in the file, without decoding them.

        This is the fast path for vocabularies of many thousand strings. The read position only
        changes when all strings have been yielded or one of them is faulty.

        Args:
            count: Number of strings.
            max_bytes: Maximum bytes per string.
            item_name: What the strings are, for error messages.
        """
        position, size, file_bytes, length_at = self.position, self.size, self._bytes, LENGTH.unpack_from
        for _ in range(count):
            begin = position + LENGTH.size
            length = length_at(file_bytes, position)[0] if begin <= size else max_bytes + 1
            if length > max_bytes or length > size - begin:  # one of these calls raises an error
                self.position = position
                length = self.scalar("<Q", item_name)
                if length > max_bytes:
                    self.fail(f"{item_name} claims {length:,} bytes, the limit is {max_bytes:,}")
                self.take(length, item_name)
            yield begin, length
            position = begin + length
        self.position = position

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
