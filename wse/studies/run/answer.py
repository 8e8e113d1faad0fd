"""Answer for one user: prompt, generated tokens and text; callbacks that report it during a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wse.models.tokenizers.token_text import TextStream, Tokenizer
from wse.reports.progress import OnProgress, ignore
from wse.studies.run.result import AnswerResult

OnText = Callable[[str], None]


class Answer:
    """The prompt of one user, and the tokens and text generated after it so far.

    An answer is finished once an end token or ``max_tokens`` tokens have been generated. Text is
    passed to the callback ``on_text`` as soon as it is known: first the prompt text, then each new
    part.

    Attributes:
        prompt: Token ids of the prompt.
        tokens: Generated token ids.
        text: Text of the prompt and the generated tokens. Empty without a tokenizer.
        logits: float32 ``[vocabulary]`` after the prompt. None if the wafer does not output them.
        cycles: Time at which the last token was generated, in cycles since the start of the run.
    """

    def __init__(
        self,
        prompt: tuple[int, ...],
        end_ids: tuple[int, ...],
        max_tokens: int,
        tokenizer: Tokenizer | None,
        on_text: OnText,
    ) -> None:
        self.prompt = prompt
        self.tokens: list[int] = []
        self.text = ""
        self.logits: npt.NDArray[np.float32] | None = None
        self.cycles = 0.0
        self._end_ids, self._max_tokens, self._on_text = end_ids, max_tokens, on_text
        self._stream: TextStream | None = tokenizer.stream() if tokenizer else None

    @property
    def is_finished(self) -> bool:
        """Whether an end token or the maximum number of tokens has been generated."""
        return len(self.tokens) == self._max_tokens or self._has_ended()

    def _has_ended(self) -> bool:
        """Return whether the last generated token is an end token."""
        return bool(self.tokens) and self.tokens[-1] in self._end_ids

    @property
    def has_text(self) -> bool:
        """Whether the model has a tokenizer, so that token ids can be converted to text."""
        return self._stream is not None

    def read(self) -> list[bytes]:
        """Append the prompt text to the answer, and return it token by token.

        Returns:
            The UTF-8 bytes of each prompt token.
        """
        return [self._say(self._push(token)) for token in self.prompt]

    def add(self, token: int) -> bytes:
        """Append a generated token. Return the UTF-8 bytes of its text, which may be empty."""
        self.tokens.append(token)
        return self._say(self._push(token))

    def finish(self) -> None:
        """Append any text that the tokenizer has held back, such as an incomplete character."""
        if self._stream is not None:
            self._say(self._stream.finish())

    def result(self) -> AnswerResult:
        """Convert the answer so far to a record for the run's result."""
        return AnswerResult(
            tokens=tuple(self.tokens),
            ended=self._has_ended(),
            prompt_tokens=len(self.prompt),
            prompt_ids=None if self.has_text else self.prompt,
            text=self.text if self.has_text else None,
            prompt_logits_last=None if self.logits is None else tuple(float(logit) for logit in self.logits),
        )

    def _push(self, token: int) -> str:
        return self._stream.push(token) if self._stream is not None else ""

    def _say(self, text: str) -> bytes:
        if text:
            self.text += text
            self._on_text(text)
        return text.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCallbacks:
    """Callbacks of a run. By default, they do nothing.

    Attributes:
        on_text: Called with the prompt text and then with each piece of generated text, if there is
            only one prompt.
        on_warning: Called with a warning, for example that compiled kernels cannot be cached or
            that an existing trace is replaced. The run continues.
        on_stored: Called with (elements stored, total, name of the last tile) while weights are
            stored in emulated SRAM.
        on_progress: Called with (kernels compiled, total, name) while kernels compile.
        on_tokens: Called with (tokens read and generated, maximum, "") if no text is streamed.
    """

    on_text: OnText = ignore
    on_warning: Callable[[str], None] = ignore
    on_stored: OnProgress = ignore
    on_progress: OnProgress = ignore
    on_tokens: OnProgress = ignore


SILENT = RunCallbacks()
"""Callbacks that do nothing."""
