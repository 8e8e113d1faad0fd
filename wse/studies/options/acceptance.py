"""``--draft`` of an estimate: how often drafted tokens are accepted, by a name, shares or a TOML file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from wse.errors import BadInput, UnknownName
from wse.files import names_toml_file, read_toml, short_repr
from wse.serving.drafts.speculation import (
    TYPICAL,
    Acceptance,
    acceptance_by_position,
    choice_shares,
    measured_curves,
    typical,
)
from wse.serving.drafts.tree import Shares, check_shares, shares_of, with_choices

CONSTANT_POSITIONS: Final = 8
"""Positions of a single share: as many as the longest measured drafts have. It holds less and less further on."""

REMEDY: Final = "give shares from 0 to 1 by position, such as 0.8,0.7,0.6"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftAcceptance:
    """The acceptance of draft tokens.

    Attributes:
        curve: Tokens per pass by number of draft tokens, with one candidate at each position.
        shares: Acceptance by position and candidate, for trees of draft tokens.
    """

    curve: Acceptance
    shares: Shares

    @property
    def by_position(self) -> tuple[float, ...]:
        """Probability that the draft token at each position is accepted, given that all before it were.

        Positions end at the first number of draft tokens that was not measured, past which the curve is interpolated.
        """
        lengths = self.curve.draft_tokens
        measured = next((n for n in range(1, len(lengths) + 1) if lengths[n - 1] != n), len(lengths) + 1) - 1
        return tuple(choices[0] for choices in self.shares[:measured])


def known_acceptances() -> tuple[str, ...]:
    """Return the names of measured acceptances."""
    return (TYPICAL, *(curve.model for curve in measured_curves()))


def read_acceptance(text: str) -> DraftAcceptance:
    """Return the acceptance that an option's text asks for.

    A name is one of `known_acceptances`; shares are those of positions one after another, a single one of all. A TOML
    file has ``acceptance``, a list of shares by position, each of which may be a list of those of the draft's choices.

    Raises:
        UnknownName: there is no such acceptance.
        BadInput: a share is none, or the file cannot be used.
    """
    names = {name.casefold(): name for name in known_acceptances()}
    if text.casefold() in names:
        named = [curve for curve in measured_curves() if curve.model.casefold() == text.casefold()]
        curve = named[0] if named else typical(measured_curves())
        return DraftAcceptance(curve=curve, shares=shares_of(curve, choice_shares().shares))
    if names_toml_file(text):
        return _from_file(Path(text))
    parts = text.split(",")
    if not parts[0].strip()[:1].isdigit() and parts[0].strip()[:1] not in (".", "-", "+"):
        raise UnknownName("acceptance of drafts", text, known_acceptances(), where="--draft")
    shares = [_share(part, f"--draft {text}") for part in parts]
    shares = shares * CONSTANT_POSITIONS if len(shares) == 1 else shares
    return _given([with_choices(share, choice_shares().shares) for share in shares], "--draft", text)


def _from_file(path: Path) -> DraftAcceptance:
    place = f"--draft {path}"
    table = read_toml(path, BadInput)
    if unknown := sorted(table.keys() - {"acceptance"}):
        raise UnknownName("key", unknown[0], ("acceptance",), where=place)
    positions = table.get("acceptance")
    if not isinstance(positions, list) or not positions:
        _refuse(place, "has no list of acceptances by position; write acceptance = [0.8, 0.7]")
    shares = [
        tuple(_share(choice, place) for choice in position)
        if isinstance(position, list)
        else with_choices(_share(position, place), choice_shares().shares)
        for position in positions
    ]
    return _given(shares, place, str(path))


def _given(shares: list[tuple[float, ...]], place: str, name: str) -> DraftAcceptance:
    """Return an acceptance that the user gives."""
    try:
        check_shares(shares)
    except BadInput as error:
        message = f"{place}: {error}"
        raise BadInput(message) from error
    firsts = [choices[0] for choices in shares]
    return DraftAcceptance(curve=acceptance_by_position(firsts, name, "U", "given"), shares=tuple(shares))


def _share(value: Any, place: str) -> float:
    """Return a share from 0 to 1."""
    try:
        share = float(value)
    except (TypeError, ValueError):
        _refuse(place, f"{short_repr(value)} is no number; {REMEDY}")
    if not 0.0 <= share <= 1.0:
        _refuse(place, f"an acceptance of {share:g} is outside of 0 to 1; {REMEDY}")
    return share


def _refuse(place: str, reason: str) -> NoReturn:
    message = f"{place}: {reason}"
    raise BadInput(message)
