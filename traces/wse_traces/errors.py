"""The one error of this package: a trace that cannot be read or written."""

from __future__ import annotations


class TraceError(OSError):
    """A trace that cannot be read or written: where, what, the value and the remedy, on one line.

    >>> print(TraceError("bad.h5: a\\nb"))
    bad.h5: a\\nb
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message))
