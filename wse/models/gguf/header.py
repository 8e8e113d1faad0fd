"""Header: a GGUF file's metadata about its architecture, typed and bounded."""

from __future__ import annotations

from typing import Any, Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.gguf.file import GgufArray, GgufFile

LARGEST: Final = 2**31 - 1
MOST_LAYERS: Final = 10_000
EMBEDDING: Final = "token_embd.weight"


class Header:
    """The keys under ``general.architecture``, without that prefix; every read marks its key.

    Errors are those of `ConfigReader`: file, key with its prefix, value, remedy.
    """

    def __init__(self, gguf: GgufFile) -> None:
        self.gguf = gguf
        self._all = ConfigReader(gguf.path, gguf.metadata)
        self.architecture = str(self._all.any("general.architecture"))
        prefix = f"{self.architecture}."
        self._own = ConfigReader(
            gguf.path, {key: value for key, value in gguf.metadata.items() if key.startswith(prefix)}
        )

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return self._own.has(f"{self.architecture}.{key}")

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number of at least 1; an array of equal ones counts as that number."""
        name = f"{self.architecture}.{key}"
        value = self._own.any(name)
        if isinstance(value, GgufArray):
            values = set(self.gguf.elements(name) or ())
            if len(values) != 1:
                self._own.refuse(name, sorted(values), "layers of different sizes are not supported")
            value = values.pop()
            if type(value) is not int or not 1 <= value <= LARGEST:
                self._own.refuse(name, value, f"give an integer from 1 to {LARGEST:,}")
            return value
        return self._own.integer(name, 1, LARGEST, *([] if default is None else [default]))

    def count(self, key: str) -> int:
        """A whole number, 0 where there is none."""
        return self._own.integer(f"{self.architecture}.{key}", 0, LARGEST, 0)

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number."""
        return self._own.number(f"{self.architecture}.{key}", 0.0, 1e15, *([] if default is None else [default]))

    def flag(self, key: str, *, default: bool) -> bool:
        """A truth value."""
        return self._own.flag(f"{self.architecture}.{key}", default)

    def text(self, key: str) -> str | None:
        """A text."""
        value = self._own.any(f"{self.architecture}.{key}")
        return value if value is None or isinstance(value, str) else self.refuse(key, "give a text")

    def require(self, key: str, allowed: tuple[Any, ...], why: str) -> None:
        """Raise BadModel for a value that is not the required one, as `ConfigReader.require` does."""
        self._own.require(f"{self.architecture}.{key}", allowed, why)

    def refuse(self, key: str, remedy: str) -> Any:
        """Raise the error about a key."""
        name = f"{self.architecture}.{key}"
        self._own.refuse(name, self._own.any(name), remedy)

    def finish(self, harmless: tuple[str, ...]) -> None:
        """Raise BadModel for keys that nobody read, as `ConfigReader.finish` does."""
        self._own.finish([f"{self.architecture}.{key}" for key in harmless])

    def token(self, kind: str) -> int | None:
        """``tokenizer.ggml.KIND_token_id``."""
        key = f"tokenizer.ggml.{kind}_token_id"
        return self._all.integer(key, 0, LARGEST) if self._all.has(key) else None

    def has_tensor(self, name: str) -> bool:
        """Whether the file holds a tensor of that name."""
        return name in self.gguf.tensors

    @property
    def layers(self) -> int:
        """Layers, those that predict further tokens among them."""
        return self._own.integer(f"{self.architecture}.block_count", 1, MOST_LAYERS)

    @property
    def head_size(self) -> int:
        """Features of a head's queries and keys."""
        heads = self.size("attention.head_count")
        return self.size("attention.key_length", max(self.size("embedding_length") // heads, 1))

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.size("attention.head_count_kv", self.size("attention.head_count"))
