"""Answer: the prompt of one user, and the tokens and the text that follow as they are generated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from wse.models.tokenizers.token_text import TextStream, Tokenizer
from wse.studies.run.result import AnswerResult

OnText = Callable[[str], None]


class Answer:
    """The prompt of a user, generated ids and text. It ends with one of ``end_ids``, or with ``max_tokens`` tokens.

    ``on_text`` is called with the prompt's text and then each stretch of generated text.

    Attributes:
        prompt: Token ids.
        tokens: Generated ids.
        text: The text of the prompt and of what was generated.
        logits: float32 ``[vocabulary]`` after the prompt, where the wafer sent them out.
        cycles: Time of the last token, in cycles from the start of the run.
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
        """True if no more tokens belong to it."""
        return len(self.tokens) == self._max_tokens or (bool(self.tokens) and self.tokens[-1] in self._end_ids)

    @property
    def has_text(self) -> bool:
        """True if the model has a tokenizer."""
        return self._stream is not None

    def read(self) -> list[bytes]:
        """Take in the prompt, once it was read; the text of its tokens, UTF-8."""
        return [self._say(self._push(token)) for token in self.prompt]

    def add(self, token: int) -> bytes:
        """Add a generated token; its text, UTF-8."""
        self.tokens.append(token)
        return self._say(self._push(token))

    def finish(self) -> None:
        """Add the text that was held back for further tokens."""
        if self._stream is not None:
            self._say(self._stream.finish())

    def result(self) -> AnswerResult:
        """Return the answer as far as it goes."""
        return AnswerResult(
            tokens=tuple(self.tokens),
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
