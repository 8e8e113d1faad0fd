"""ConfigReader: typed, bounded access to the keys of one config, which notices the keys nobody read."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NoReturn

from wse.errors import BadModel

_MISSING: Any = object()
LONGEST_SHOWN = 120  # characters of an offending value in a message


class ConfigReader:
    """The keys of a config.json. Every method that returns a value marks its key as read.

    Every error is a `BadModel` of one line: file, key, value, remedy.
    """

    def __init__(self, path: Path, values: dict[str, Any], prefix: str = "") -> None:
        """Create a reader. ``prefix`` precedes every key in messages, for keys of nested objects."""
        self.path = path
        self._values = values
        self.prefix = prefix
        self._read: set[str] = set()

    def is_stated(self, key: str) -> bool:
        """Return whether the key is present, even with null.

        Counts as reading it.
        """
        self._read.add(key)
        return key in self._values

    def has(self, key: str) -> bool:
        """Return whether the key is present with a value other than null.

        Counts as reading it.
        """
        self._read.add(key)
        return self._values.get(key) is not None

    def value(self, key: str) -> Any:
        """Return the value as it is in the file, None where absent."""
        self._read.add(key)
        return self._values.get(key)

    def integer(self, key: str, low: int, high: int, default: int = _MISSING) -> int:
        """Return an integer from ``low`` to ``high``; ``default`` where absent or null, if there is one."""
        value = self._get(key, default, f"an integer from {low:,} to {high:,}")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(key, value, f"give an integer from {low:,} to {high:,}")
        return value

    def number(self, key: str, low: float, high: float, default: float = _MISSING) -> float:
        """Return a number strictly above ``low`` and at most ``high``; ``default`` where absent or null."""
        rule = f"a number above {low:g}, at most {high:g}"
        value = self._get(key, default, rule)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, value, f"give {rule}")
        if not low < value <= high:  # false of what is no number too
            self.refuse(key, value, f"give {rule}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:  # noqa: FBT001 (a value, not a switch)
        """Return true or false; ``default`` where the key is absent or null."""
        value = self._get(key, default, "true or false")
        if not isinstance(value, bool):
            self.refuse(key, value, "give true or false")
        return value

    def choice(self, key: str, choices: Collection[str], default: str = _MISSING) -> str:
        """Return the string under a key, one of ``choices``; ``default`` where absent or null, if there is one."""
        value = self._get(key, default, f"one of {', '.join(choices)}")
        if not isinstance(value, str) or value not in choices:
            self.refuse(key, value, f"supported: {', '.join(choices)}")
        return value

    def require(self, key: str, allowed: Iterable[Any], why: str) -> None:
        """Accept an absent key, null, or one of ``allowed``; refuse any other value, saying ``why``."""
        value = self.value(key)
        if value is not None and not any(type(value) is type(good) and value == good for good in allowed):
            self.refuse(key, value, why)

    def table(self, key: str) -> ConfigReader | None:
        """Return the object under the key, None where absent, null or empty."""
        value = self.value(key)
        if value is not None and not isinstance(value, dict):
            self.refuse(key, value, "give an object or null")
        return ConfigReader(self.path, value, f"{self.prefix}{key}.") if value else None

    def keys(self) -> list[str]:
        """Return the keys of the object, in the order of the file."""
        return [*self._values]

    def integers(self, key: str, low: int, high: int) -> tuple[int, ...] | None:
        """Return a list of integers from ``low`` to ``high``; None where absent or null."""
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, list) or any(type(item) is not int or not low <= item <= high for item in value):
            self.refuse(key, value, f"give a list of integers from {low:,} to {high:,}")
        return tuple(value)

    def numbers(self, key: str, count: int, low: float, high: float) -> tuple[float, ...]:
        """Return a list of ``count`` numbers above ``low``, at most ``high``."""
        rule = f"a list of {count:,} numbers above {low:g}, at most {high:g}"
        value = self._get(key, _MISSING, rule)
        if not isinstance(value, list) or len(value) != count:
            self.refuse(key, value, f"give {rule}")
        if any(type(item) not in (int, float) or not low < item <= high for item in value):
            self.refuse(key, value, f"give {rule}")
        return tuple(float(item) for item in value)

    def ids(self, key: str, vocab_size: int) -> tuple[int, ...]:
        """Return token ids in the vocabulary: an integer, a list of integers, or null (none)."""
        value = self.value(key)
        ids = [] if value is None else value if isinstance(value, list) else [value]
        for i in ids:
            if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < vocab_size:
                self.refuse(key, value, f"give token ids from 0 to {vocab_size - 1:,}, or null")
        return tuple(dict.fromkeys(ids))

    def finish(self, harmless: Collection[str]) -> None:
        """Refuse every key that was neither read nor is in ``harmless``.

        A null says that the feature is off, so it passes whatever its key.
        """
        for key in sorted(self._values.keys() - self._read - set(harmless)):
            if self._values[key] is None:
                continue
            close = difflib.get_close_matches(key, self._read, n=1, cutoff=0.8)
            hint = f"did you mean {self.prefix + close[0]!r}? otherwise " if close else ""
            self.refuse(
                key,
                self._values[key],
                f"this key is not understood and may change the mathematics; {hint}remove it if it does not",
            )

    def refuse(self, key: str, value: Any, remedy: str) -> NoReturn:
        """Raise the error about the value of ``key``."""
        shown = repr(value)
        if len(shown) > LONGEST_SHOWN:
            shown = shown[:LONGEST_SHOWN] + "…"
        msg = f"{self.path}: {self.prefix}{key} = {shown}: {remedy}"
        raise BadModel(msg)

    def _get(self, key: str, default: Any, rule: str) -> Any:
        value = self.value(key)
        if value is None:
            if default is _MISSING:
                msg = f"{self.path}: has no {self.prefix}{key}; add it: {rule}"
                raise BadModel(msg)
            return default
        return value
