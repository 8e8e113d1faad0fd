"""Texts of answers, divided into tokens: the prompt again, the content of a file, or stories.

A token is four characters, the mean length of a token in English text; the last token of a text
may be shorter. This one rule counts the tokens of prompts and divides answers. A prompt that is a
list of token ids has as many tokens as ids, and each id is a word of its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from wse.errors import BadInput
from wse.studies.endpoint.request import ECHO, STORY
from wse.studies.options.option import make_request
from wse.studies.run.request import RunRequest
from wse.studies.run.study import run

TOKEN_CHARACTERS: Final = 4
LENGTH, STOP = "length", "stop"
"""Reasons why an answer ends: it has the requested number of tokens, or the text is complete."""

MODEL: Final = "story"
OPENINGS: Final = (
    "Once upon a time, there was a little fox",
    "One day, a girl named Lily",
    "Tom and his dog",
    "There was a little boat",
    "Mia had a red ball",
    "The old man and the bird",
)
"""Prompts of the model, which are also the first words of the stories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerText:
    """The text of an answer, divided into tokens.

    Attributes:
        pieces: Text of each token.
        finish_reason: Why the answer ends: ``length`` at the requested number of tokens, or
            ``stop`` at a stop string or at the end of the text.
    """

    pieces: Sequence[str]
    finish_reason: str


def token_texts(prompt: str | Sequence[int]) -> list[str]:
    """Return the text of each token of a prompt, which is a string or a list of token ids."""
    if not isinstance(prompt, str):
        return [f" {token}" for token in prompt]
    return [prompt[at : at + TOKEN_CHARACTERS] for at in range(0, len(prompt), TOKEN_CHARACTERS)]


def block_hashes(tokens: Sequence[str], block_tokens: int) -> list[int]:
    """Return the hashes of the blocks of a prompt that later prompts can reuse.

    These are all blocks that end before the last token of the prompt, which must be read to get the
    first token of the answer.

    Args:
        tokens: Text of each token of the prompt.
        block_tokens: Tokens per block.
    """
    starts = range(0, len(tokens) - block_tokens, block_tokens)
    return [hash(tuple(tokens[start : start + block_tokens])) for start in starts]


def read_texts(name: str) -> list[list[str]] | None:
    """Return the texts of the option ``--text``, each as a list of tokens.

    Args:
        name: ``echo``, ``story`` for a story by the bundled model for each of `OPENINGS`, or the
            path of a text file. A story ends when the model generates an end token, or after the
            default number of tokens of ``wse run``.

    Returns:
        The texts; None for ``echo``, with which answers repeat the prompt.

    Raises:
        BadInput: The file cannot be read as UTF-8, or is empty.
    """
    if name == ECHO:
        return None
    if name == STORY:
        # One batch on an emulated wafer, which takes a few seconds. The model has a tokenizer, so a text is there.
        result = run(make_request(RunRequest, model=MODEL, prompt=OPENINGS, trace=None))
        return [token_texts(answer.text or "") for answer in result.users]
    choices = f"give a text file, {STORY} or {ECHO}"
    try:
        text = Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--text {name}: cannot be read as UTF-8 ({error}); {choices}") from error
    if not text:
        raise BadInput(f"--text {name}: is empty; {choices}")
    return [token_texts(text)]


def answer_text(
    tokens: Sequence[str], max_tokens: int | None, *, ignore_end: bool, stop_texts: Sequence[str]
) -> AnswerText:
    """Return the answer that consists of the first tokens of a text.

    Args:
        tokens: Text of each token, at least one.
        max_tokens: Maximum number of tokens; None for the whole text.
        ignore_end: What happens if the text has fewer than ``max_tokens`` tokens: if true, it is
            repeated until the answer has this number of tokens; if false, the answer ends.
        stop_texts: Stop strings. The answer ends with the token that completes a stop string, and
            its text ends before the string. If the text contains several stop strings, the one that
            ends first is used. If they end at the same position, the longest is used.
    """
    count = len(tokens) if max_tokens is None else max_tokens if ignore_end else min(max_tokens, len(tokens))
    pieces = list(islice(cycle(tokens), count))
    text = "".join(pieces)
    stops = [(start + len(stop), start) for stop in stop_texts if stop and (start := text.find(stop)) >= 0]
    if not stops:
        return AnswerText(pieces=pieces, finish_reason=LENGTH if count == max_tokens else STOP)
    stop_end, start = min(stops)
    stopped_pieces, position = list[str](), 0
    for piece in pieces:
        stopped_pieces.append(piece[: max(0, start - position)])
        position += len(piece)
        if position >= stop_end:
            break
    return AnswerText(pieces=stopped_pieces, finish_reason=STOP)
