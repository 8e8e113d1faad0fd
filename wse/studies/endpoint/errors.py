"""Errors of the API, which a client gets instead of an answer."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

TOO_MANY_REQUESTS: Final = 429


class ApiError(Exception):
    """A request that cannot be answered.

    Attributes:
        status: HTTP status.
        message: What is wrong, and what to do.
        param: Field of the request that is wrong; None if no single field is.
        code: Name of the error for programs; None if it has none.
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
    """Return the API's error for a request body that is not JSON or has an invalid field."""
    first = error.errors(include_url=False)[0]
    param = ".".join(str(part) for part in first["loc"][:1]) or None
    return ApiError(400, f"{param or 'body'}: {first['msg']}", param=param)
