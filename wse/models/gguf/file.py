"""Read GGUF files, versions 2 and 3, little-endian: metadata and locations of tensors.

`Header` provides typed, range-checked access to the metadata of the model.

Every size is checked before it is used.

    4 bytes       "GGUF", then version u32, number of tensors u64, number of metadata items u64
    items         key (text), type u32, value; an array: type of elements u32, number u64, elements
    tensors       name (text), dimensions u32, sizes u64 (innermost first), type u32, offset u64
    the data      starts at the next multiple of general.alignment (32 by default), as each tensor

A string is stored as its number of bytes, u64, and its UTF-8 bytes. Offsets of tensors count from
the start of the data. Source: docs/gguf.md and ggml.h of github.com/ggml-org/ggml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from wse.errors import BadModel
from wse.models.configs.config_reader import ConfigReader
from wse.models.gguf.reader import LONGEST_NAME, LONGEST_TEXT, SCALARS, TEXT, GgufArray, GgufReader
from wse.models.gguf.tensor_places import place_tensors, read_tensor
from wse.models.tensors.tensor_entry import MappedFile
from wse_mappings.rounding import round_up

MAX_ITEMS: Final = 2**16
MAX_TENSORS: Final = 2**18
LARGEST_ALIGNMENT: Final = 2**20


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
        reader = GgufReader(self.file)
        tensor_count, item_count = _read_head(reader)
        self.metadata: dict[str, Any] = {}
        for _ in range(item_count):
            key = reader.text(LONGEST_NAME, "a key")
            if key in self.metadata:
                reader.fail(f"the key {key!r} is given twice")
            self.metadata[key] = reader.value(key)
        parts = self.metadata.get("split.count")
        if isinstance(parts, int) and parts > 1:
            raise BadModel(f"{path}: is one of {parts} parts of a model; merge them to one file (gguf-split --merge)")
        alignment = self.metadata.get("general.alignment", 32)
        is_valid = isinstance(alignment, int) and 1 <= alignment <= LARGEST_ALIGNMENT and alignment.bit_count() == 1
        if not is_valid:
            reader.fail(f"general.alignment = {alignment!r} must be a power of two up to {LARGEST_ALIGNMENT:,}")
        descriptions = [read_tensor(reader, alignment) for _ in range(tensor_count)]
        data_begin = round_up(reader.position, alignment)
        self.tensors = place_tensors(reader, descriptions, data_begin)

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self.file.path

    def elements(self, key: str) -> list[Any] | None:
        """Return all elements of a metadata array as a list; None if the key is absent.

        Raises:
            BadModel: The value is not an array, or a string is not UTF-8.
        """
        array = self.metadata.get(key)
        if array is None:
            return None
        reader = GgufReader(self.file)
        if not isinstance(array, GgufArray):
            reader.fail(f"{key} must be an array")
        reader.position = array.begin
        if array.kind == TEXT:
            return reader.texts(array.count, LONGEST_TEXT, key)
        scalars = np.frombuffer(self.file.bytes, SCALARS[array.kind], array.count, array.begin)
        return list(scalars.tolist())


def _read_head(reader: GgufReader) -> tuple[int, int]:
    """Read the start of a GGUF file, and return its numbers of tensors and of metadata items.

    Raises:
        BadModel: The file is not GGUF, or of an unsupported version, or the numbers are
            implausible.
    """
    if reader.scalar("4s", "its first four bytes") != b"GGUF":
        raise BadModel(f"{reader.path}: does not begin with 'GGUF'; is it a GGUF file?")
    version = reader.scalar("<I", "the version")
    if version not in (2, 3):
        if version & 0xFFFF == 0:
            raise BadModel(f"{reader.path}: is big-endian; convert it to little-endian")
        raise BadModel(f"{reader.path}: is GGUF version {version}; supported: 2, 3")
    tensors, items = reader.scalar("<Q", "the number of tensors"), reader.scalar("<Q", "the number of keys")
    for count, limit, item_name in ((tensors, MAX_TENSORS, "tensors"), (items, MAX_ITEMS, "keys")):
        if count > limit:
            reader.fail(f"claims {count:,} {item_name}, the limit is {limit:,}")
    return tensors, items


MAX_INTEGER: Final = 2**31 - 1
MAX_LAYERS: Final = 10_000
EMBEDDING: Final = "token_embd.weight"


class Header(ConfigReader):
    """Metadata of a GGUF file for one architecture, such as ``llama.block_count``.

    Callers give keys without the architecture prefix, such as ``block_count``.

    Attributes:
        gguf: The GGUF file.
        architecture: Value of ``general.architecture``.
    """

    def __init__(self, gguf: GgufFile) -> None:
        self.gguf = gguf
        self._all = ConfigReader(gguf.path, gguf.metadata)
        self.architecture = str(self._all.value("general.architecture"))
        prefix = f"{self.architecture}."
        values = {key.removeprefix(prefix): value for key, value in gguf.metadata.items() if key.startswith(prefix)}
        super().__init__(gguf.path, values, prefix)

    def size(self, key: str, default: int | None = None) -> int:
        """Return the value of a key as an integer of at least 1.

        An array that repeats the same number for every layer is read as that number.

        Args:
            key: Key without the architecture prefix.
            default: Value to return if the key is absent, which is otherwise an error.
        """
        value = self.value(key)
        if isinstance(value, GgufArray):
            values = set(self.gguf.elements(self.prefix + key) or ())
            if len(values) != 1:
                self.refuse(key, sorted(values), "layers of different sizes are not supported")
            value = values.pop()
            if type(value) is not int or not 1 <= value <= MAX_INTEGER:
                self.refuse(key, value, f"give an integer from 1 to {MAX_INTEGER:,}")
            return value
        return self.integer(key, 1, MAX_INTEGER, *([] if default is None else [default]))

    def count(self, key: str) -> int:
        """Return the value of a key as an integer of at least 0, or 0 if the key is absent."""
        return self.integer(key, 0, MAX_INTEGER, 0)

    def positive(self, key: str, default: float | None = None) -> float:
        """Return the value of a key as a positive number.

        Args:
            key: Key without the architecture prefix.
            default: Value to return if the key is absent, which is otherwise an error.
        """
        return self.number(key, 0.0, 1e15, *([] if default is None else [default]))

    def token(self, kind: str) -> int | None:
        """Return the id of a special token such as "bos", or None if the file has none."""
        key = f"tokenizer.ggml.{kind}_token_id"
        return self._all.integer(key, 0, MAX_INTEGER) if self._all.has_value(key) else None

    def has_tensor(self, name: str) -> bool:
        """Return whether the file contains a tensor with this name."""
        return name in self.gguf.tensors

    @property
    def layers(self) -> int:
        """Number of layers, including additional layers for multi-token prediction."""
        return self.integer("block_count", 1, MAX_LAYERS)

    @property
    def head_size(self) -> int:
        """Number of features in the queries and keys of each head."""
        heads = self.size("attention.head_count")
        return self.size("attention.key_length", max(self.size("embedding_length") // heads, 1))

    @property
    def kv_heads(self) -> int:
        """Number of key-value heads, which may be smaller than the number of query heads."""
        return self.size("attention.head_count_kv", self.size("attention.head_count"))
