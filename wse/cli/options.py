"""The options that several commands have beside those of their requests."""

from __future__ import annotations

from typing import Annotated, TextIO

from wse.request.option import Option

Json = Annotated[bool, Option(doc="Print one JSON object on stdout and nothing else there.", panel="Output")]


def warn(stream: TextIO, message: str) -> None:
    """Say what the user should know though the command goes on."""
    stream.write(f"wse: warning: {message}\n")
    stream.flush()
