"""Targets: latency limits, request lengths, and the rows of a comparison to show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from wse.errors import BadInput
from wse.hardware.quantity import TOKEN, whole_number
from wse.option import Option

LONGEST_S: Final = 1e6
LENGTHS_REMEDY: Final = "give PROMPT/NEW with commas between, such as 128/128,8k/1k"
MAX_LENGTHS: Final = 50
MAX_TOP: Final = 2_000


def read_parts(option: str, remedy: str, text: str) -> tuple[str, ...]:
    """Split the text of an option, such as ``128/128,8k/1k``, at its commas.

    Args:
        option: Name of the option, for error messages.
        remedy: Description of valid values, for error messages.
        text: Text to split.

    Raises:
        BadInput: A part is empty.
    """
    parts = tuple(part.strip() for part in text.split(","))
    if "" in parts:
        raise BadInput(f"{option} {text!r}: {remedy}")
    return parts


def read_lengths(text: str) -> tuple[int, int]:
    """Parse text such as ``2048/512`` or ``2k/512`` as prompt-token and new-token counts.

    Raises:
        BadInput: The string does not have this form, or specifies less than 1 prompt token or fewer
            than 2 new tokens.
    """
    prompt, _, new = text.partition("/")
    lengths = whole_number(prompt, TOKEN), whole_number(new, TOKEN)
    if lengths[0] is None or lengths[1] is None or lengths[0] < 1 or lengths[1] < 2:
        raise BadInput(
            f"--lengths {text!r}: give tokens of a prompt, at least 1, and new ones, at least 2, such as 8k/512"
        )
    return lengths[0], lengths[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Latency limits and request lengths for ranking machines, and the rows to show.

    All fields have their default values if the user requested none of these options.

    Attributes:
        ttft: Limit the time to first token, such as 200ms, and rank machines.
        tpot: Limit the time per output token, such as 2ms, and rank machines. Also limits
            concurrent users.
        lengths: Rank machines for each of several pairs of prompt tokens and new tokens.
        top: Rank machines, and show the first N.
        pareto: Rank machines, and show those on the Pareto frontier of tokens/s per user and cost
            of a token.
    """

    ttft: Annotated[float | None, Option(panel="Serving", unit="s")] = None
    tpot: Annotated[float | None, Option(panel="Serving", unit="s")] = None
    lengths: Annotated[
        tuple[str, ...] | None,
        Option(panel="Prompt", metavar="PROMPT/NEW,...", read=partial(read_parts, "--lengths", LENGTHS_REMEDY)),
    ] = None
    top: Annotated[int | None, Option(panel="Output")] = None
    pareto: Annotated[bool, Option(panel="Output")] = False


NO_TARGETS: Final = Targets()
"""The targets of a comparison without any requested targets."""


def check_targets(targets: Targets, prompt_len: int | None, new_tokens: int | None) -> None:
    """Check that targets are in range and do not contradict other options.

    Args:
        targets: Targets to check.
        prompt_len: Requested number of prompt tokens, or None.
        new_tokens: Requested number of new tokens, or None.

    Raises:
        BadInput: A target is out of range, or ``--lengths`` contains a pair twice or is combined
            with ``--prompt-len`` or ``--new-tokens``.
    """
    for option, value in (("--ttft", targets.ttft), ("--tpot", targets.tpot)):
        if value is not None and not 0 < value <= LONGEST_S:
            raise BadInput(f"{option} {value:g}: give a time of more than 0, such as 200ms")
    if targets.top is not None and not 1 <= targets.top <= MAX_TOP:
        raise BadInput(f"--top {targets.top}: give a number of rows from 1 to {MAX_TOP:,}")
    if targets.lengths is None:
        return
    if prompt_len is not None or new_tokens is not None:
        option = "--prompt-len" if prompt_len is not None else "--new-tokens"
        raise BadInput(f"{option}: --lengths already sets the lengths of requests; leave out one")
    pairs = [read_lengths(text) for text in targets.lengths]
    if not 0 < len(pairs) <= MAX_LENGTHS or len(set(pairs)) < len(pairs):
        raise BadInput(f"--lengths {','.join(targets.lengths)[:80]!r}: give 1 to {MAX_LENGTHS} pairs, each once")
