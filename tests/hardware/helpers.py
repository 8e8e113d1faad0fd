"""Helpers for tests of hardware files: write files, check bundled numbers, check refusals."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from wse.errors import WseError
from wse.hardware.number import SourcedNumber, unit_of


def write_toml(folder: Path, text: str) -> Path:
    """Write a TOML file mine.toml and return its path."""
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def check_bundled(numbers: Mapping[str, SourcedNumber]) -> None:
    """Check that each number has the unit of its name, a grade other than the user's, and a public source."""
    for key, number in numbers.items():
        assert number.unit == unit_of(key.partition(".")[0]), key
        assert number.grade != "U", key
        assert len(number.source) >= 8, key
        assert not re.search(r"\[\d+\]|hardware\.md|^/|shared/", number.source), key


def refusal(kind: type[WseError], call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Return the message of the error that a call raises; check that it is a `kind` (no subclass) and one line."""
    with pytest.raises(WseError) as caught:
        call(*args, **kwargs)
    assert type(caught.value) is kind, repr(caught.value)
    message = str(caught.value)
    assert message.isprintable(), "more than one line"
    return message
