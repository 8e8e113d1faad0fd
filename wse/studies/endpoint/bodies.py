"""The requests of the API that the endpoint understands; other fields are ignored.

A client gets one of the errors defined here instead of an answer.
"""

from __future__ import annotations

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
