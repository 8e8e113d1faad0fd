"""The requests and answers of the API. Unknown fields of requests are ignored.

A client gets one of the errors defined here instead of an answer. Answers are sent as a whole, or
as the chunks of a stream.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

TOO_MANY_REQUESTS: Final = 429


class ApiError(Exception):
    """Error that an HTTP request gets instead of an answer, with the fields of the OpenAI API.

    Attributes:
        status: HTTP status code.
        message: What is wrong, and what to do.
        param: Name of the invalid request field; None if the error is not about a single field.
        code: Name of the error, such as ``model_not_found``; None if it has none.
    """

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    def body(self) -> dict[str, Any]:
        """Return the error object of the API."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        if self.status == TOO_MANY_REQUESTS:
            kind = "rate_limit_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def invalid_body(error: ValidationError) -> ApiError:
    """Convert a validation error, such as an invalid field, to an error with HTTP status 400."""
    first = error.errors(include_url=False)[0]
    param = ".".join(str(part) for part in first["loc"][:1]) or None
    return ApiError(400, f"{param or 'body'}: {first['msg']}", param=param)


MAX_INTEGER: Final = 2**31 - 1
MAX_STOPS: Final = 4
"""Maximum number of ``stop`` strings, as in the API."""
MAX_STOP_CHARACTERS: Final = 1_024


def _as_list(stop: Any) -> Any:
    """Return a single string as a list, and any other value unchanged."""
    return [stop] if isinstance(stop, str) else stop


Count = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0, le=MAX_INTEGER)]], Field(min_length=1)]
StopText = Annotated[str, Field(max_length=MAX_STOP_CHARACTERS)]
StopTexts = Annotated[list[StopText], Field(max_length=MAX_STOPS)]


class StreamOptions(BaseModel):
    """Options of a streamed answer."""

    include_usage: bool = False


class AnswerBody(BaseModel):
    """Fields that completion requests and chat requests to the OpenAI API have in common.

    Attributes:
        model: Name of the model.
        stream: Whether the tokens are sent as they are generated.
        stream_options: Whether a streamed answer ends with the token counts.
        stop: Strings that end the answer where they occur. A single string is also accepted.
        ignore_eos: Whether to repeat the text until the answer has the maximum number of tokens.
        n: Number of answers. Only 1 is supported.
    """

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    stop: Annotated[StopTexts | None, BeforeValidator(_as_list)] = None
    ignore_eos: bool = False
    n: Literal[1] | None = 1

    @property
    def includes_usage(self) -> bool:
        """Whether a streamed answer ends with the token counts."""
        return self.stream_options is not None and self.stream_options.include_usage


class CompletionBody(AnswerBody):
    """A request to ``/v1/completions``. As in the OpenAI API, 16 tokens are the default limit."""

    prompt: str | TokenIds | list[str] | list[TokenIds]
    max_tokens: Count | None = 16

    def prompt_and_limit(self) -> tuple[str | list[int], int | None]:
        """Return the prompt, as a string or token ids, and the maximum number of new tokens.

        The maximum is None if the request does not limit the answer.

        Raises:
            ApiError: There are several prompts.
        """
        prompt: Any = self.prompt
        if isinstance(prompt, list) and not isinstance(prompt[0] if prompt else "", int):
            if len(prompt) != 1:
                raise ApiError(400, f"prompt: {len(prompt)} prompts; give one prompt per request", param="prompt")
            prompt = prompt[0]
        return prompt, self.max_tokens


class TextPart(BaseModel):
    """A part of a chat message. Parts that are not text, such as images, are rejected."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """A message of a conversation."""

    role: str
    content: str | list[TextPart] | None = None

    @property
    def text(self) -> str:
        """Text of the message."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class ChatBody(AnswerBody):
    """A request to ``/v1/chat/completions``."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None

    def prompt_and_limit(self) -> tuple[str | list[int], int | None]:
        """Return the concatenated text of all messages, and the maximum number of new tokens.

        The maximum is None if the request does not limit the answer.
        """
        return "".join(message.text for message in self.messages), self.max_completion_tokens or self.max_tokens


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
        cached_tokens: Tokens of the prompt that were in the prefix cache or loaded from KV tiers;
            None if prefixes are not kept.
    """
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    return usage if cached_tokens is None else usage | {"prompt_tokens_details": {"cached_tokens": cached_tokens}}
