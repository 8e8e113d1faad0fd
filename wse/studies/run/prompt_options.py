"""Options for a run's prompts (PromptOptions) and token selection (SamplingOptions)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from wse.errors import BadInput
from wse.hardware.quantity import TOKEN, whole_number
from wse.option import Option, Panel

if TYPE_CHECKING:
    from wse.backends.execute.host_tokens.sampling import Sampling


def read_ids(text: str) -> tuple[int, ...]:
    """Parse a comma-separated list of token ids such as "1,2,3".

    Raises:
        BadInput: An element of the list is not an integer.
    """
    parts = text.split(",") if text.strip() else []
    ids = []
    for part in parts:
        number = whole_number(part)
        if number is None:
            raise BadInput(
                f"--prompt-ids: {part!r} is not a token id; give whole numbers with commas between, such as 1,2,3"
            )
        ids.append(number)
    return tuple(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """Options that specify the prompts of a run and the number of tokens to generate.

    ``prompt`` and ``prompt_ids`` contain either a single user's prompt or a sequence with one
    prompt per user.

    Attributes:
        prompt: Text to continue. Several texts are answered together, one per user.
        prompt_ids: Token ids to continue, used unchanged; no tokenizer is needed. Several lists are
            answered together, one per user.
        prompts: File of prompts to continue together: one per line, or a JSON list in a .json file.
        new_tokens: Stop after this number of tokens, or earlier at an end token. Default: 256, or
            the most that fit.
        chat: Use the prompt as the user's message in the model's chat template.
        system: System message of a chat, before the user's message.
    """

    PANEL: ClassVar[Panel] = "Prompt"

    prompt: Annotated[str | Sequence[str] | None, Option(metavar="TEXT", repeats=True)] = None
    prompt_ids: Annotated[
        Sequence[int] | Sequence[Sequence[int]] | None, Option(metavar="1,2,3", repeats=True, read=read_ids)
    ] = None
    prompts: Annotated[str | Path | None, Option(metavar="FILE")] = None
    new_tokens: Annotated[int | None, Option(unit=TOKEN)] = None
    chat: Annotated[bool, Option()] = False
    system: Annotated[str | None, Option(metavar="TEXT")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Sampling options: how the next token is selected from the logits.

    `wse.backends.execute.host_tokens.sampling.Sampling` documents the exact meaning of each option.

    Attributes:
        temperature: 0 selects the most likely token on the wafer; above 0, the host draws tokens at
            random.
        top_k: Draw among the K most likely tokens; 0: among all.
        top_p: Draw among the most likely tokens that have a total probability of P.
        min_p: Draw among tokens that are at least P times as likely as the most likely one.
        repetition_penalty: Above 1: tokens that occur in the prompt or the text so far become less
            likely.
        seed: Seed of random draws at a temperature above 0; each prompt starts with it anew.
    """

    PANEL: ClassVar[Panel] = "Sampling"

    temperature: Annotated[float, Option(metavar="T")] = 0.0
    top_k: Annotated[int, Option(metavar="K")] = 0
    top_p: Annotated[float, Option(metavar="P")] = 1.0
    min_p: Annotated[float, Option(metavar="P")] = 0.0
    repetition_penalty: Annotated[float, Option(metavar="R")] = 1.0
    seed: Annotated[int, Option()] = 0

    def rule(self) -> Sampling:
        """Convert the options to the sampling rule applied by the backend."""
        from wse.backends.execute.host_tokens.sampling import Sampling

        return Sampling(**{field.name: getattr(self, field.name) for field in fields(Sampling)})
