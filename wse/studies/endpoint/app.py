"""The ASGI application of the endpoint: its paths, and the functions that handle their requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, Final

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wse.studies.endpoint.bodies import STREAM_END, AnswerFormat, ApiError, ChatBody, CompletionBody, invalid_body
from wse.studies.endpoint.service import AnsweredRequest, Service

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
STREAM_HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
CLIENT_CLOSED: Final = 499
"""HTTP status of a request whose client has disconnected. Nobody receives it."""


class EventStream:
    """HTTP response that sends server-sent events one by one, as soon as each is available."""

    def __init__(self, events: Callable[[Request], AsyncGenerator[bytes]]) -> None:
        """Create a response.

        Args:
            events: Function that yields the events for a request.
        """
        self._events = events

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the response. It ends early if the client disconnects."""
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        async with aclosing(self._events(Request(scope, receive))) as events:
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def endpoint_app(service: Service) -> Starlette:
    """Return the web application (ASGI) that answers HTTP requests with a service."""

    async def models(_: Request) -> Response:
        model = {
            "id": service.model,
            "object": "model",
            "created": 0,
            "owned_by": "wse",
            "max_model_len": service.context,
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def health(_: Request) -> Response:
        return Response()

    async def metrics(_: Request) -> Response:
        return Response(service.metrics.text(), headers={"content-type": METRICS_TYPE})

    return Starlette(
        routes=[
            Route("/v1/completions", partial(_answered, service=service, kind=CompletionBody), methods=["POST"]),
            Route("/v1/chat/completions", partial(_answered, service=service, kind=ChatBody), methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", health),
            Route("/metrics", metrics),
        ],
        exception_handlers={ApiError: _api_error, HTTPException: _http_error, Exception: _server_error},
    )


async def _answered(
    request: Request, service: Service, kind: type[CompletionBody] | type[ChatBody]
) -> Response | EventStream:
    """Answer a request of one kind, as a whole or as a stream.

    Raises:
        ApiError: The request is invalid or too large, or too many requests wait.
    """
    try:
        body = kind.model_validate_json(await _body(request, service.max_body_bytes))
    except ValidationError as error:
        raise invalid_body(error) from error
    except ClientDisconnect:
        return Response(status_code=CLIENT_CLOSED)
    answered = service.begin(body)
    answer_format = AnswerFormat(model=service.model, is_chat=kind is ChatBody, includes_usage=body.includes_usage)
    if body.stream:
        return EventStream(lambda request: _events(request, service, answered, answer_format))
    async with _answer_of(request, service, answered):
        while await answered.answer.next_tokens() is not None:
            pass
    text = answered.text
    return JSONResponse(answer_format.whole("".join(text.pieces), text.finish_reason, service.usage(answered)))


async def _body(request: Request, max_bytes: int) -> bytes:
    """Read the body of a request.

    Raises:
        ApiError: It is too large. The rest of it is not read.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            raise ApiError(413, f"the request has more than {max_bytes:,} bytes; shorten it")
    return bytes(body)


async def _events(
    request: Request, service: Service, answered: AnsweredRequest, answer_format: AnswerFormat
) -> AsyncGenerator[bytes]:
    """Yield the events of a streamed answer as its tokens are released.

    A reader that is slower than the machine gets several tokens in one event.
    """
    text, answer = answered.text, answered.answer
    async with _answer_of(request, service, answered):
        while (positions := await answer.next_tokens()) is not None:
            pieces = "".join(text.pieces[positions.start : positions.stop])
            reason = text.finish_reason if positions.stop == len(text.pieces) else None
            yield answer_format.chunk(pieces, reason, is_first=positions.start == 0)
    if answer.is_complete:
        if answer_format.includes_usage:
            yield answer_format.usage_chunk(service.usage(answered))
        yield STREAM_END


@asynccontextmanager
async def _answer_of(request: Request, service: Service, answered: AnsweredRequest) -> AsyncIterator[None]:
    """End an answer when this context is left. Close it early if the client disconnects."""

    async def watch() -> None:
        """Close the answer when the client disconnects."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        answered.answer.close()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        service.end(answered)


async def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return JSONResponse(error.body(), status_code=error.status)


async def _http_error(request: Request, error: Exception) -> Response:
    """Return an error object for an unknown address or a wrong method."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    return JSONResponse(ApiError(error.status_code, message).body(), status_code=error.status_code)


async def _server_error(_: Request, error: Exception) -> Response:
    """Return an error object for an unexpected exception, which is a bug in wse."""
    return JSONResponse(ApiError(500, f"a fault in wse: {error!r}").body(), status_code=500)
