"""Targets: times that a machine is to keep, lengths of requests, and which rows of a comparison are to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from wse.errors import BadInput
from wse.hardware.quantity import TOKEN, whole_number
from wse.studies.options.option import Option

LONGEST_S: Final = 1e6
MOST_LENGTHS: Final = 50
MOST_TOP: Final = 2_000


def read_parts(option: str, text: str) -> tuple[str, ...]:
    """Return the parts of a text with commas between. Raises BadInput where there is none, or a part is empty."""
    parts = tuple(part.strip() for part in text.split(","))
    if "" in parts:
        message = f"{option} {text!r}: give PROMPT/NEW with commas between, such as 128/128,8k/1k"
        raise BadInput(message)
    return parts


def read_lengths(text: str) -> tuple[int, int]:
    """Return the tokens of a prompt and generated ones of ``2048/512`` or ``2k/512``.

    Raises BadInput for another text.
    """
    prompt, _, new = text.partition("/")
    lengths = whole_number(prompt, TOKEN), whole_number(new, TOKEN)
    if lengths[0] is None or lengths[1] is None or lengths[0] < 1 or lengths[1] < 2:
        message = f"--lengths {text!r}: give tokens of a prompt, at least 1, and new ones, at least 2, such as 8k/512"
        raise BadInput(message)
    return lengths[0], lengths[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The targets that rows of a comparison have to meet, and the rows to show; defaults are left out."""

    ttft: Annotated[
        float | None,
        Option(
            doc="Rank rows: the cheapest that give the first token within this time, such as 200ms.",
            panel="Serving",
            metavar="TIME",
            unit="s",
        ),
    ] = None
    tpot: Annotated[
        float | None,
        Option(
            doc="Likewise each further token, such as 2ms; and no more users at once than leaves them that.",
            panel="Serving",
            metavar="TIME",
            unit="s",
        ),
    ] = None
    lengths: Annotated[
        tuple[str, ...] | None,
        Option(
            doc="Rank rows for each of several tokens of a prompt and new ones.",
            panel="Prompt",
            metavar="PROMPT/NEW,...",
            read=partial(read_parts, "--lengths"),
        ),
    ] = None
    top: Annotated[int | None, Option(doc="Rank rows, and show the first so many.", panel="Output", metavar="N")] = None
    pareto: Annotated[
        bool,
        Option(
            doc="Rank those rows alone that none surpasses in tokens/s of a user and of a wafer.",
            panel="Output",
        ),
    ] = False

    def times(self) -> dict[str, float]:
        """Return the targets that were given, in seconds."""
        targets = {"ttft_s": self.ttft, "tpot_s": self.tpot}
        return {name: value for name, value in targets.items() if value is not None}


NO_TARGETS: Final = Targets()


def check_targets(targets: Targets, prompt_len: int | None, new_tokens: int | None) -> None:
    """Refuse what is out of range, or given by another option too. Raises BadInput."""
    for name, value in targets.times().items():
        if not 0 < value <= LONGEST_S:
            message = f"--{name[:4]} {value:g}: give a time of more than 0, such as 200ms"
            raise BadInput(message)
    if targets.top is not None and not 1 <= targets.top <= MOST_TOP:
        message = f"--top {targets.top}: give a number of rows from 1 to {MOST_TOP:,}"
        raise BadInput(message)
    if targets.lengths is None:
        return
    if prompt_len is not None or new_tokens is not None:
        option = "--prompt-len" if prompt_len is not None else "--new-tokens"
        message = f"{option}: --lengths says how long requests are; leave out one"
        raise BadInput(message)
    read = [read_lengths(text) for text in targets.lengths]
    if not 0 < len(read) <= MOST_LENGTHS or len(set(read)) < len(read):
        message = f"--lengths {','.join(targets.lengths)[:80]!r}: give 1 to {MOST_LENGTHS} pairs, each once"
        raise BadInput(message)
