"""Look up and compare names, ignoring case and punctuation."""

from __future__ import annotations

from collections.abc import Iterable


def known_name(text: str, known_names: Iterable[str]) -> str | None:
    """Find the known name that a user means, ignoring case.

    Args:
        text: Text that a user wrote.
        known_names: All known names.

    Returns:
        The name that equals ``text``. If there is none, the only name that differs from it just in
        case. None if no name or several names match.

    >>> known_name("WSE3", ["wse2", "wse3"]), known_name("wse", ["wse2", "wse3"]), known_name("a", ["a", "A"])
    ('wse3', None, 'a')
    """
    names = list(known_names)
    if text in names:
        return text
    same_but_case = [name for name in names if name.casefold() == text.casefold()]
    return same_but_case[0] if len(same_but_case) == 1 else None


def letters_and_digits(name: str) -> str:
    """Return the letters and digits of a name, in lower case, for comparisons."""
    return "".join(c for c in name.lower() if c.isalnum())
