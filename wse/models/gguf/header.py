"""Header: typed, range-checked access to the model metadata in a GGUF file."""

from __future__ import annotations

from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.gguf.file import GgufFile
from wse.models.gguf.reader import GgufArray

LARGEST: Final = 2**31 - 1
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
            if type(value) is not int or not 1 <= value <= LARGEST:
                self.refuse(key, value, f"give an integer from 1 to {LARGEST:,}")
            return value
        return self.integer(key, 1, LARGEST, *([] if default is None else [default]))

    def count(self, key: str) -> int:
        """Return the value of a key as an integer of at least 0, or 0 if the key is absent."""
        return self.integer(key, 0, LARGEST, 0)

    def positive(self, key: str, default: float | None = None) -> float:
        """Return the value of a key as a positive number.

        Args:
            key: Key without the architecture prefix.
            default: Value to return if the key is absent, which is otherwise an error.
        """
        return self.number(key, 0.0, 1e15, *([] if default is None else [default]))

    def text(self, key: str) -> str | None:
        """Return the value of a key as a string, or None if the key is absent."""
        value = self.value(key)
        if value is not None and not isinstance(value, str):
            self.refuse(key, value, "give a text")
        return value

    def token(self, kind: str) -> int | None:
        """Return the id of a special token such as "bos", or None if the file has none."""
        key = f"tokenizer.ggml.{kind}_token_id"
        return self._all.integer(key, 0, LARGEST) if self._all.has_value(key) else None

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
