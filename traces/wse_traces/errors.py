"""The only exception of this package: a trace that cannot be read or written."""

from __future__ import annotations


class TraceError(OSError):
    r"""Error for a trace that cannot be read or written.

    The message is a single line that says where the problem is, what is wrong, the wrong value, and
    what to do. Non-printable characters are escaped.

    >>> print(TraceError("bad.h5: a\nb"))
    bad.h5: a\nb
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message))
