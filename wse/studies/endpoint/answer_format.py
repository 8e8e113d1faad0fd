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
    """Writer of one answer.

    Attributes:
        model: Name of the model.
        is_chat: Whether the answer is a message of a conversation instead of a continued text.
        includes_usage: Whether a stream ends with the number of tokens.
        answer_id: Identifier of the answer.
        created: Unix time of the answer.
    """

    model: str
    is_chat: bool
    includes_usage: bool
    answer_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, text: str, finish_reason: str, usage: Mapping[str, int]) -> dict[str, Any]:
        """Return the body of an answer that is sent at once."""
        content = {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        return self._body(
            "chat.completion" if self.is_chat else "text_completion",
            [{"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}],
            {"usage": usage},
        )

    def chunk(self, text: str, finish_reason: str | None, *, is_first: bool) -> bytes:
        """Return an event of a stream with the text of new tokens.

        Args:
            text: Text of the tokens.
            finish_reason: Why the answer ends with these tokens; None if it goes on.
            is_first: Whether these are the first tokens. The first message chunk has the role.
        """
        role = {"role": "assistant"} if is_first else {}
        content = {"delta": {**role, "content": text}} if self.is_chat else {"text": text}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}
        return self._event([choice], {"usage": None} if self.includes_usage else {})

    def usage_chunk(self, usage: Mapping[str, int]) -> bytes:
        """Return the event of a stream that has the number of tokens, after all other chunks."""
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


def usage_of(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Return the number of tokens of a request, as the API reports it."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
