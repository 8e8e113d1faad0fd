"""Errors of the API, which a client gets instead of an answer."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

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
