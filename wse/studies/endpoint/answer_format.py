"""Answers in the format of the API: as a whole, or as the chunks of a stream."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

STREAM_END: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFormat:
    """Converter of one answer to the JSON format of the OpenAI API.

    Attributes:
        model: Name of the model.
        is_chat: True for an answer to a chat request, False for a text completion.
        includes_usage: Whether the last event of a streamed answer states the token counts.
        answer_id: Identifier of the answer.
        created: Unix time at which the answer was created, in seconds.
    """

    model: str
    is_chat: bool
    includes_usage: bool
    answer_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, text: str, finish_reason: str, usage: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON body of an answer that is not streamed.

        Args:
            text: The whole text.
            finish_reason: Why the answer ends: ``length`` or ``stop``.
            usage: Token counts, from `usage_of`.
        """
        content = {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        return self._body(
            "chat.completion" if self.is_chat else "text_completion",
            [{"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}],
            {"usage": usage},
        )

    def chunk(self, text: str, finish_reason: str | None, *, is_first: bool) -> bytes:
        """Return the server-sent event with the next tokens of a streamed answer.

        Args:
            text: Text of the tokens.
            finish_reason: Why the answer ends after these tokens; None if more tokens follow.
            is_first: Whether these are the first tokens. In a chat, the first event also states the
                role ``assistant``.
        """
        role = {"role": "assistant"} if is_first else {}
        content = {"delta": {**role, "content": text}} if self.is_chat else {"text": text}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}
        return self._event([choice], {"usage": None} if self.includes_usage else {})

    def usage_chunk(self, usage: Mapping[str, Any]) -> bytes:
        """Return the last event of a streamed answer, which states the token counts (``usage``)."""
        return self._event([], {"usage": usage})

    def _event(self, choices: list[dict[str, Any]], fields: Mapping[str, Any]) -> bytes:
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        return b"data: " + json.dumps(self._body(kind, choices, fields)).encode() + b"\n\n"

    def _body(self, kind: str, choices: list[dict[str, Any]], fields: Mapping[str, Any]) -> dict[str, Any]:
        prefix = "chatcmpl" if self.is_chat else "cmpl"
        return {
            "id": f"{prefix}-{self.answer_id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
            **fields,
        }


def usage_of(prompt_tokens: int, completion_tokens: int, cached_tokens: int | None) -> dict[str, Any]:
    """Return a request's token counts as the ``usage`` object of the OpenAI API.

    Args:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens of the answer.
        cached_tokens: Tokens of the prompt that were in the prefix cache; None if there is none.
    """
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    return usage if cached_tokens is None else usage | {"prompt_tokens_details": {"cached_tokens": cached_tokens}}
