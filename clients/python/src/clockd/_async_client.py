"""The client for asyncio."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Unpack

import httpx

from . import _call
from ._alarm import Alarm, Result, Ring
from ._answer import Answer, ack
from ._consumer import AsyncConsumer, ConsumerOptions, FaultHandler, log_fault
from ._error import ClockdError
from ._set import Cancel, Set, SetFields
from ._values import Duration, Instant

DEFAULT_WAIT = timedelta(seconds=20)
"""The service's default of a reserve's wait."""


class AsyncClient:
    """Calls one clockd service. It is an async context manager. Each method does what the one of Client does."""

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        name: str = "",
        tries: int = 5,
        try_timeout: float = 20.0,
        timeout: float = 60.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Takes the options of Client."""
        self._begin(
            _call.Options(
                server=_call.server_or_default(server),
                token=_call.token_or_default(token),
                name=name,
                tries=tries,
                try_timeout=try_timeout,
                timeout=timeout,
                ssl_context=ssl_context,
            )
        )

    @classmethod
    def of(cls, options: _call.Options) -> AsyncClient:
        """Returns the client with the options of another one."""
        client = cls.__new__(cls)
        client._begin(options)
        return client

    def _begin(self, options: _call.Options) -> None:
        self._options = options
        self._http = httpx.AsyncClient(**options.transport())

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def set(self, application: str, business_id: str, **fields: Unpack[SetFields]) -> Alarm:
        """Creates the alarm, keeps it if it is the same already, or changes it. Returns the alarm as it is now."""
        return await self._send(_call.set_request(application, Set(business_id, **fields)))

    async def cancel(self, application: str, business_id: str, *, only_if: int | None = None, note: str = "") -> Alarm:
        """Cancels an alarm. An alarm that was cancelled before is no error."""
        return await self._send(_call.cancel_request(application, business_id, only_if, note))

    async def get(self, application: str, business_id: str) -> Alarm:
        """Reads an alarm with its failed attempts."""
        return await self._send(_call.get_request(application, business_id))

    async def alarms(
        self,
        application: str,
        *,
        states: Sequence[str] | str = (),
        prefix: str = "",
        due_after: Instant | None = None,
        due_before: Instant | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Alarm]:
        """Reads alarms page by page, in the order of their business ids, or with a due range of their due times."""
        selected = _call.Filter(states=states, prefix=prefix, due_after=due_after, due_before=due_before)
        cursor = ""
        while limit is None or limit > 0:
            page, cursor = await self._send(selected.request(application, _call.page_limit(limit), cursor))
            for alarm in page:
                yield alarm
            limit = None if limit is None else limit - len(page)
            if not cursor:
                return

    async def batch(self, application: str, changes: Iterable[Set | Cancel]) -> list[Result]:
        """Makes up to 1000 changes with one request: first the sets, then the cancels. It is not atomic."""
        return await self._send(_call.batch_request(application, changes))

    async def reserve(self, application: str, count: int = 1, *, wait: Duration = DEFAULT_WAIT) -> list[Ring]:
        """Waits for rings of an application whose target is pull, and returns up to count of them (1 to 64)."""
        return await self._send(_call.reserve_request(application, count, wait))

    async def ack(self, application: str, message_id: str) -> Alarm:
        """Tells that the work of a ring is done."""
        return await self.answer(application, message_id, ack())

    async def answer(self, application: str, message_id: str, answer: Answer) -> Alarm:
        """Answers the ring with this message id, and returns the alarm."""
        try:
            request = _call.answer_request(application, message_id, answer, self._options.name)
            return await self._send(request)
        except ClockdError as failed:
            accepted = _call.accepted_before(failed, message_id, answer, self._options.name)
            if accepted is None:
                raise
            return accepted

    def consumer(
        self,
        application: str,
        handle: Callable[[Ring], Awaitable[Answer | None]],
        *,
        concurrency: int = 1,
        pull: bool = False,
        read_ahead: int = 100,
        memory: int = 100_000,
        drain: float = 10.0,
        on_fault: FaultHandler = log_fault,
    ) -> AsyncConsumer:
        """Returns a consumer of the application's rings. See AsyncConsumer.

        concurrency: calls of the handler at once. With 1, rings are handled in the order of their arrival.
        pull: reserve rings, for an application whose target is pull. Default: read them from the service's stream.
        read_ahead: most rings of a stream that were read and wait for the handler.
        memory: message ids that are remembered, to recognize copies.
        drain: seconds for the rings that were read, after the stop.
        on_fault: is told each fault after which the consumer goes on. Default: the logger "clockd" warns.
        """
        options = ConsumerOptions(
            concurrency=concurrency, pull=pull, read_ahead=read_ahead, memory=memory, drain=drain, on_fault=on_fault
        )
        return AsyncConsumer(self, application, handle, options)

    async def reserve_members(self, application: str, count: int) -> list[Any]:
        """Reserves rings, and returns them in JSON."""
        return await self._send(_call.reserve_members_request(application, count, DEFAULT_WAIT))

    async def open_stream(self, application: str, last_id: str) -> httpx.Response:
        """Opens the stream of an application's rings, and resumes it after an event. The caller closes the response."""
        headers = {b"Accept": b"text/event-stream"}
        if last_id:
            headers[b"Last-Event-ID"] = last_id.encode()
        limit = self._options.try_timeout
        request = self._http.build_request(
            "GET",
            self._options.url(_call.stream_path(application)),
            headers=headers,
            timeout=httpx.Timeout(None, connect=limit / 2),
        )
        try:
            async with asyncio.timeout(limit):
                return await self._http.send(request, stream=True)
        except TimeoutError as error:
            raise _call.too_slow(limit) from error
        except _call.NO_RESPONSE as error:
            raise _call.broken(error, self._options.server) from error

    async def _send(self, request: _call.Request[_call.T]) -> _call.T:
        """Sends a request until a try succeeds, or until no further try is allowed."""
        tries = _call.Tries(request, self._options)
        while True:
            try:
                return await self._try(request, tries)
            except ClockdError as failed:
                await asyncio.sleep(tries.after(failed))

    async def _try(self, request: _call.Request[_call.T], tries: _call.Tries) -> _call.T:
        limit = tries.limit()
        body = bytearray()
        try:
            async with (
                asyncio.timeout(limit),
                self._http.stream(
                    request.method,
                    self._options.url(request.path),
                    headers=tries.headers(limit),
                    content=request.body,
                    timeout=_call.timeouts(limit),
                ) as response,
            ):
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > _call.RESPONSE_BYTES:
                        raise _call.too_large(response.status_code)
        except TimeoutError as error:
            raise _call.too_slow(limit) from error
        except _call.NO_RESPONSE as error:
            raise _call.broken(error, self._options.server) from error
        return _call.read_response(request, response.status_code, response.headers, bytes(body))
