"""Header: a GGUF file's metadata about its architecture, typed and bounded."""

from __future__ import annotations

from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.gguf.file import GgufArray, GgufFile

LARGEST: Final = 2**31 - 1
MOST_LAYERS: Final = 10_000
EMBEDDING: Final = "token_embd.weight"


class Header(ConfigReader):
    """A reader of the keys under ``general.architecture``, which are named without that prefix."""

    def __init__(self, gguf: GgufFile) -> None:
        self.gguf = gguf
        self._all = ConfigReader(gguf.path, gguf.metadata)
        self.architecture = str(self._all.value("general.architecture"))
        prefix = f"{self.architecture}."
        values = {key.removeprefix(prefix): value for key, value in gguf.metadata.items() if key.startswith(prefix)}
        super().__init__(gguf.path, values, prefix)

    def size(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 1; an array of equal numbers counts as that number."""
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
        """Return a whole number, 0 where there is none."""
        return self.integer(key, 0, LARGEST, 0)

    def positive(self, key: str, default: float | None = None) -> float:
        """Return a positive number."""
        return self.number(key, 0.0, 1e15, *([] if default is None else [default]))

    def text(self, key: str) -> str | None:
        """Return a text, None where there is none."""
        value = self.value(key)
        if value is not None and not isinstance(value, str):
            self.refuse(key, value, "give a text")
        return value

    def token(self, kind: str) -> int | None:
        """Return the id ``tokenizer.ggml.KIND_token_id``."""
        key = f"tokenizer.ggml.{kind}_token_id"
        return self._all.integer(key, 0, LARGEST) if self._all.has(key) else None

    def has_tensor(self, name: str) -> bool:
        """Return whether the file contains a tensor of that name."""
        return name in self.gguf.tensors

    @property
    def layers(self) -> int:
        """Return the number of layers, including those that predict further tokens."""
        return self.integer("block_count", 1, MOST_LAYERS)

    @property
    def head_size(self) -> int:
        """Features of a head's queries and keys."""
        heads = self.size("attention.head_count")
        return self.size("attention.key_length", max(self.size("embedding_length") // heads, 1))

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.size("attention.head_count_kv", self.size("attention.head_count"))
