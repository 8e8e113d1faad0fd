"""Wafer and software files for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wse.errors import WseError


def write_toml(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def refusal(kind: type[WseError], call: Callable[..., Any], *args: Any) -> str:
    """The message of the error that the call raises, which must be exactly ``kind`` and on one line."""
    with pytest.raises(WseError) as caught:
        call(*args)
    assert type(caught.value) is kind, repr(caught.value)
    message = str(caught.value)
    assert message.isprintable(), "more than one line"
    return message
