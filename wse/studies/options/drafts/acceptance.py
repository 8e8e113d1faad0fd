"""Acceptance of draft tokens in an estimate: reads the option ``--draft``.

The option is the name of a measured acceptance, a list of probabilities, or a TOML file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from wse.errors import BadInput, UnknownName
from wse.files import names_toml_file, path_exists, read_toml, short_repr
from wse.models.catalogue import names as model_names
from wse.serving.drafts.speculation import (
    TYPICAL,
    Acceptance,
    acceptance_by_position,
    acceptance_of,
    choice_frequencies,
    measured_curves,
)
from wse.serving.drafts.tree import ChoiceAcceptances, check_acceptances, choice_acceptances, with_choices

CONSTANT_POSITIONS: Final = 8
"""Number of positions to which a single probability applies, equal to the longest measured drafts.

The assumption of the same probability at all positions becomes less accurate with each position.
"""

REMEDY: Final = "give a probability from 0 to 1 for each position, such as 0.8,0.7,0.6"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftAcceptance:
    """How likely it is that a model accepts the draft tokens that it verifies.

    Attributes:
        curve: Mean number of tokens that a verification pass yields, for each number of sequential
            draft tokens.
        choice_acceptances: For trees of draft tokens, which have several candidates at each position: the
            probability that each candidate is accepted, [positions][candidates].
    """

    curve: Acceptance
    choice_acceptances: ChoiceAcceptances

    @property
    def by_position(self) -> tuple[float, ...]:
        """Acceptance probability of the draft token at each position.

        It is the probability if all tokens before the position were accepted. Only positions with
        measurements are included. For example, if 1, 2 and 4 draft tokens were measured, the tuple
        ends after position 2, because the probability at position 3 is only interpolated.
        """
        lengths = self.curve.draft_tokens
        positions = next((n for n in range(1, len(lengths) + 1) if lengths[n - 1] != n), len(lengths) + 1) - 1
        return tuple(choices[0] for choices in self.choice_acceptances[:positions])


def known_acceptances() -> tuple[str, ...]:
    """Return the names of the bundled measurements of draft acceptance.

    They are valid values for the ``--draft`` option of ``wse estimate``: ``typical``, and the names
    of the measured models.
    """
    return (TYPICAL, *(curve.model for curve in measured_curves()))


def read_acceptance(text: str) -> DraftAcceptance:
    """Parse the option ``--draft``, which states how often draft tokens are accepted.

    The text is one of:

    - a name from `known_acceptances`, in upper or lower case
    - probabilities by position, separated by commas; a single probability applies to all positions
    - a TOML file with ``acceptance``, a list of probabilities by position. An item may itself be a
      list with the probability of each candidate at that position.

    Raises:
        UnknownName: There is no measurement of this name.
        BadInput: A probability is not a number from 0 to 1, or the file cannot be used.
    """
    if text.casefold() in {name.casefold() for name in known_acceptances()}:
        curve = acceptance_of(text)
        return DraftAcceptance(
            curve=curve, choice_acceptances=choice_acceptances(curve, choice_frequencies().frequencies)
        )
    if names_toml_file(text):
        return _from_file(Path(text))
    parts = text.split(",")
    if not parts[0].strip()[:1].isdigit() and parts[0].strip()[:1] not in (".", "-", "+"):
        is_model = text in model_names() or (path_exists(text) and Path(text).is_dir())
        remedy = f"give a draft model as --draft-model {text}, and its acceptance as --draft typical"
        raise UnknownName(
            "acceptance of drafts", text, known_acceptances(), place="--draft", remedy=remedy if is_model else ""
        )
    acceptances = [_probability(part, f"--draft {text}") for part in parts]
    acceptances = acceptances * CONSTANT_POSITIONS if len(acceptances) == 1 else acceptances
    return _user_acceptance(
        [with_choices(acceptance, choice_frequencies().frequencies) for acceptance in acceptances], "--draft", text
    )


def _from_file(path: Path) -> DraftAcceptance:
    """Read acceptance probabilities from a TOML file.

    Raises:
        UnknownName: The file has a key other than ``acceptance``.
        BadInput: The file cannot be read, or a probability is not a number from 0 to 1.
    """
    place = f"--draft {path}"
    table = read_toml(path, BadInput)
    if unknown_keys := sorted(table.keys() - {"acceptance"}):
        raise UnknownName("key", unknown_keys[0], ("acceptance",), place=place)
    positions = table.get("acceptance")
    if not isinstance(positions, list) or not positions:
        _refuse(place, "has no list of acceptances by position; write acceptance = [0.8, 0.7]")
    acceptances = [
        tuple(_probability(choice, place) for choice in position)
        if isinstance(position, list)
        else with_choices(_probability(position, place), choice_frequencies().frequencies)
        for position in positions
    ]
    return _user_acceptance(acceptances, place, str(path))


def _user_acceptance(acceptances: list[tuple[float, ...]], place: str, name: str) -> DraftAcceptance:
    """Create the acceptance probabilities of draft tokens from the numbers that a user gave.

    Args:
        acceptances: Probability that each candidate at each position is accepted,
            [positions][candidates].
        place: The option and its value, such as ``--draft 0.8``, for error messages.
        name: Name of the result in reports.
    """
    try:
        check_acceptances(acceptances)
    except BadInput as error:
        raise BadInput(f"{place}: {error}") from error
    firsts = [choices[0] for choices in acceptances]
    return DraftAcceptance(curve=acceptance_by_position(firsts, name), choice_acceptances=tuple(acceptances))


def _probability(value: Any, place: str) -> float:
    """Convert a value to a probability from 0 to 1, or raise BadInput.

    Args:
        value: The value.
        place: Option or file that contains the value, for the error message.
    """
    try:
        probability = float(value)
    except (TypeError, ValueError):
        _refuse(place, f"{short_repr(value)} is not a number; {REMEDY}")
    if not 0.0 <= probability <= 1.0:
        _refuse(place, f"an acceptance of {probability:g} is not between 0 and 1; {REMEDY}")
    return probability


def _refuse(place: str, reason: str) -> NoReturn:
    """Raise the error for unusable acceptance probabilities.

    Args:
        place: Option or file that contains the probabilities.
        reason: What is wrong.

    Raises:
        BadInput: Always. The message consists of ``place`` and ``reason``.
    """
    raise BadInput(f"{place}: {reason}")
