"""ConfigReader: typed, range-checked access to the keys of a config. Unread keys are detected."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from wse.errors import BadModel

_MISSING: Any = object()
LONGEST_SHOWN = 120  # characters of a faulty value in a message


class ConfigReader:
    """Reader for the keys of one JSON object in a config file.

    Every method that returns a value marks its key as read. `finish` then rejects keys that were
    never read, because they may change the model's mathematics. All errors are `BadModel`, with the
    file, the key, the value and the remedy in the message.
    """

    def __init__(self, path: Path, values: dict[str, Any], prefix: str = "") -> None:
        """Create a reader with all keys marked as unread.

        Args:
            path: File that contains the object, for messages.
            values: Content of the object.
            prefix: Prefix for the keys in messages, such as ``rope_scaling.`` for a nested object.
        """
        self.path = path
        self._values = values
        self.prefix = prefix
        self._read: set[str] = set()

    def with_defaults(self, defaults: Mapping[str, Any]) -> ConfigReader:
        """Return a reader of the same object with default values for absent keys.

        A key that one of the two readers has read counts as read in both.

        Args:
            defaults: Default values by key.
        """
        reader = ConfigReader(self.path, {**defaults, **self._values}, self.prefix)
        reader._read = self._read
        return reader

    def is_stated(self, key: str) -> bool:
        """Return whether the config contains a key, even if its value is null.

        The key is marked as read.
        """
        self._read.add(key)
        return key in self._values

    def has_value(self, key: str) -> bool:
        """Return whether the config contains a key with a value other than null.

        The key is marked as read.
        """
        self._read.add(key)
        return self._values.get(key) is not None

    def value(self, key: str) -> Any:
        """Return a key's value without checks, or None if absent, and mark the key as read."""
        self._read.add(key)
        return self._values.get(key)

    def integer(self, key: str, low: int, high: int, default: int = _MISSING) -> int:
        """Return the integer stored under a key.

        Args:
            key: Key of the value.
            low: Minimum allowed value.
            high: Maximum allowed value.
            default: Value to return if the key is absent or null, which is otherwise an error.
        """
        value = self._get(key, default, f"an integer from {low:,} to {high:,}")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(key, value, f"give an integer from {low:,} to {high:,}")
        return value

    def number(self, key: str, low: float, high: float, default: float = _MISSING) -> float:
        """Return the number stored under a key, as a float.

        Args:
            key: Key of the value.
            low: Exclusive lower bound.
            high: Maximum allowed value.
            default: Value to return if the key is absent or null, which is otherwise an error.
        """
        rule = f"a number above {low:g}, at most {high:g}"
        value = self._get(key, default, rule)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low < value <= high:  # rejects NaN as well
            self.refuse(key, value, f"give {rule}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:  # noqa: FBT001 (a value, not a switch)
        """Return the Boolean under a key, or ``default`` if it is absent or null."""
        value = self._get(key, default, "true or false")
        if not isinstance(value, bool):
            self.refuse(key, value, "give true or false")
        return value

    def choice(self, key: str, choices: Collection[str], default: str = _MISSING) -> str:
        """Return the string under a key, which must be one of ``choices``.

        Args:
            key: Key of the value.
            choices: Accepted values.
            default: Value to return if the key is absent or null, which is otherwise an error.
        """
        value = self._get(key, default, f"one of {', '.join(choices)}")
        if not isinstance(value, str) or value not in choices:
            self.refuse(key, value, f"supported: {', '.join(choices)}")
        return value

    def text(self, key: str) -> str | None:
        """Return the string under a key, or None if it is absent or null.

        Raises:
            BadModel: The value is not a string.
        """
        value = self.value(key)
        if value is not None and not isinstance(value, str):
            self.refuse(key, value, "give a text")
        return value

    def require(self, key: str, allowed: Iterable[Any], why: str) -> None:
        """Raise BadModel if a key has a value that is not supported.

        A key that is absent or null is accepted.

        Args:
            key: Key to check.
            allowed: Supported values; the type must match as well.
            why: Reason or remedy for the message.
        """
        value = self.value(key)
        if value is not None and not any(
            type(value) is type(allowed_value) and value == allowed_value for allowed_value in allowed
        ):
            self.refuse(key, value, why)

    def table(self, key: str) -> ConfigReader | None:
        """Return a reader for the nested object under a key, or None if absent, null or empty."""
        value = self.value(key)
        if value is not None and not isinstance(value, dict):
            self.refuse(key, value, "give an object or null")
        return ConfigReader(self.path, value, f"{self.prefix}{key}.") if value else None

    def keys(self) -> list[str]:
        """Return the keys of the object in file order."""
        return [*self._values]

    def integers(self, key: str, low: int, high: int) -> tuple[int, ...] | None:
        """Return the list of integers under a key, or None if it is absent or null.

        Args:
            key: Key of the value.
            low: Minimum of each integer.
            high: Maximum of each integer.
        """
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, list) or any(type(item) is not int or not low <= item <= high for item in value):
            self.refuse(key, value, f"give a list of integers from {low:,} to {high:,}")
        return tuple(value)

    def numbers(self, key: str, count: int, low: float, high: float) -> tuple[float, ...]:
        """Return the list of numbers under a key, which must be present, as floats.

        Args:
            key: Key of the value.
            count: Required number of elements.
            low: Exclusive lower bound of each number.
            high: Maximum allowed value.
        """
        rule = f"a list of {count:,} numbers above {low:g}, at most {high:g}"
        value = self._get(key, _MISSING, rule)
        are_numbers = isinstance(value, list) and all(type(item) in (int, float) for item in value)
        if not are_numbers or len(value) != count or not all(low < item <= high for item in value):
            self.refuse(key, value, f"give {rule}")
        return tuple(float(item) for item in value)

    def ids(self, key: str, vocab_size: int) -> tuple[int, ...]:
        """Return the distinct token ids under a key, or () if there are none.

        The value may be an integer, a list of integers, or null. Every id must be in the
        vocabulary.
        """
        value = self.value(key)
        ids = [] if value is None else value if isinstance(value, list) else [value]
        for i in ids:
            if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < vocab_size:
                self.refuse(key, value, f"give token ids from 0 to {vocab_size - 1:,}, or null")
        return tuple(dict.fromkeys(ids))

    def finish(self, harmless: Collection[str]) -> None:
        """Raise an error if the object has a key that was never read.

        Keys with the value null are accepted, because null means that a feature is not used.

        Args:
            harmless: Keys that need not be read, because they do not affect the results.
        """
        for key in self.unread_keys(harmless):
            similar_keys = difflib.get_close_matches(key, self._read, n=1, cutoff=0.8)
            hint = f"did you mean {self.prefix + similar_keys[0]!r}? otherwise " if similar_keys else ""
            self.refuse(
                key,
                self._values[key],
                f"this key is not understood and may change the mathematics; {hint}remove it if it does not",
            )

    def unread_keys(self, harmless: Collection[str]) -> list[str]:
        """Return the keys that no method has read so far, in alphabetical order.

        Keys with the value null are omitted, because null means that a feature is not used.

        Args:
            harmless: Other keys to omit.
        """
        unread_keys = sorted(self._values.keys() - self._read - set(harmless))
        return [key for key in unread_keys if self._values[key] is not None]

    def unread_copy(self, omitted_keys: Collection[str]) -> ConfigReader:
        """Return a reader of the same object in which all keys are unread.

        Args:
            omitted_keys: Keys to leave out.
        """
        values = {key: value for key, value in self._values.items() if key not in omitted_keys}
        return ConfigReader(self.path, values, self.prefix)

    def refuse(self, key: str, value: Any, remedy: str) -> NoReturn:
        """Raise an error that names a key, its value and a remedy.

        Args:
            key: Key of the value.
            value: The value, which is shortened in the message.
            remedy: What the user should do, or the allowed values.
        """
        value_text = repr(value)
        if len(value_text) > LONGEST_SHOWN:
            value_text = value_text[:LONGEST_SHOWN] + "…"
        raise BadModel(f"{self.path}: {self.prefix}{key} = {value_text}: {remedy}")

    def _get(self, key: str, default: Any, rule: str) -> Any:
        """Return the value of a key, or the default if the key is absent or null.

        Args:
            key: Key of the value.
            default: Value to return, or `_MISSING` if the key is required.
            rule: The allowed values, for the error message.

        Raises:
            BadModel: The key is absent or null and has no default.
        """
        value = self.value(key)
        if value is None:
            if default is _MISSING:
                raise BadModel(f"{self.path}: has no {self.prefix}{key}; add it: {rule}")
            return default
        return value
