"""Known names as people write them: the case of letters counts for nothing where it leaves one name."""

from __future__ import annotations

from collections.abc import Iterable


def known_name(text: str, known: Iterable[str]) -> str | None:
    """The known name that a text is, or the only one that differs from it by the case of letters; None without one.

    >>> known_name("WSE3", ["wse2", "wse3"]), known_name("wse", ["wse2", "wse3"]), known_name("a", ["a", "A"])
    ('wse3', None, 'a')
    """
    names = list(known)
    if text in names:
        return text
    alike = [name for name in names if name.casefold() == text.casefold()]
    return alike[0] if len(alike) == 1 else None
