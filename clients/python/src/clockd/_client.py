"""The client for programs with threads."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Unpack

import httpx

from . import _call
from ._alarm import Alarm, Result, Ring
from ._answer import Answer, ack
from ._async_client import DEFAULT_WAIT, AsyncClient
from ._consumer import AsyncConsumer, ConsumerOptions, FaultHandler, HandlerError, log_fault
from ._error import ClockdError, invalid
from ._set import Cancel, Set, SetFields
from ._values import Duration, Instant


class Client:
    """Calls one clockd service. It may be used by several threads, and is a context manager."""

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
        """Opens no connection.

        server: URL of the service, which may have a path. Default: CLOCKD_SERVER, else http://127.0.0.1:8080.
        token: access token, if the service demands one. Use it over TLS, or inside a trusted network. Default:
            CLOCKD_TOKEN.
        name: name of this program in answers to rings, for reports.
        tries: most tries of a call. 1: no call is repeated.
        try_timeout: seconds for one try. The service takes up to 15 s.
        timeout: seconds for a call with its repeats.
        ssl_context: authorities of the service's certificate, or a certificate of this program.
        """
        self._options = _call.Options(
            server=_call.server_or_default(server),
            token=_call.token_or_default(token),
            name=name,
            tries=tries,
            try_timeout=try_timeout,
            timeout=timeout,
            ssl_context=ssl_context,
        )
        self._http = httpx.Client(**self._options.transport())

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def set(self, application: str, business_id: str, **fields: Unpack[SetFields]) -> Alarm:
        """Creates the alarm, keeps it if it is the same already, or changes it. Returns the alarm as it is now.

        A set with ring_at or repeat may be repeated at any time. A set with delay is repeated only with
        only_if="absent": each repeat would move the alarm.
        """
        return self._send(_call.set_request(application, Set(business_id, **fields)))

    def cancel(self, application: str, business_id: str, *, only_if: int | None = None, note: str = "") -> Alarm:
        """Cancels an alarm. An alarm that was cancelled before is no error.

        If it is too late, the code of the error is already_rung, already_expired, already_dead or ring_in_doubt, and
        the error has the alarm. With a note it is the act of a person. only_if is the generation that the alarm must
        have.
        """
        return self._send(_call.cancel_request(application, business_id, only_if, note))

    def get(self, application: str, business_id: str) -> Alarm:
        """Reads an alarm with its failed attempts."""
        return self._send(_call.get_request(application, business_id))

    def alarms(
        self,
        application: str,
        *,
        states: Sequence[str] | str = (),
        prefix: str = "",
        due_after: Instant | None = None,
        due_before: Instant | None = None,
        limit: int | None = None,
    ) -> Iterator[Alarm]:
        """Reads alarms page by page, in the order of their business ids, or with a due range of their due times."""
        selected = _call.Filter(states=states, prefix=prefix, due_after=due_after, due_before=due_before)
        cursor = ""
        while limit is None or limit > 0:
            page, cursor = self._send(selected.request(application, _call.page_limit(limit), cursor))
            yield from page
            limit = None if limit is None else limit - len(page)
            if not cursor:
                return

    def batch(self, application: str, changes: Iterable[Set | Cancel]) -> list[Result]:
        """Makes up to 1000 changes with one request: first the sets, then the cancels. It is not atomic.

        It returns one result for each set and then for each cancel. If any change fails for the service's reasons,
        the whole call fails, and may be repeated.
        """
        return self._send(_call.batch_request(application, changes))

    def reserve(self, application: str, count: int = 1, *, wait: Duration = DEFAULT_WAIT) -> list[Ring]:
        """Waits for rings of an application whose target is pull, and returns up to count of them (1 to 64).

        It returns none if no alarm was due within the wait (100 ms to 1 min). Answer each ring before its ack_timeout
        has passed. Rings of a lost response ring again after it.
        """
        return self._send(_call.reserve_request(application, count, wait))

    def ack(self, application: str, message_id: str) -> Alarm:
        """Tells that the work of a ring is done."""
        return self.answer(application, message_id, ack())

    def answer(self, application: str, message_id: str, answer: Answer) -> Alarm:
        """Answers the ring with this message id, and returns the alarm.

        If it is too late, the code of the error is stale_ring, and the error has the alarm.
        """
        try:
            return self._send(_call.answer_request(application, message_id, answer, self._options.name))
        except ClockdError as failed:
            accepted = _call.accepted_before(failed, message_id, answer, self._options.name)
            if accepted is None:
                raise
            return accepted

    def consumer(
        self,
        application: str,
        handle: Callable[[Ring], Answer | None],
        *,
        concurrency: int = 1,
        pull: bool = False,
        read_ahead: int = 100,
        memory: int = 100_000,
        drain: float = 10.0,
        on_fault: FaultHandler = log_fault,
    ) -> Consumer:
        """Returns a consumer of the application's rings. See Consumer.

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
        return Consumer(self._options, application, handle, options)

    def _send(self, request: _call.Request[_call.T]) -> _call.T:
        """Sends a request until a try succeeds, or until no further try is allowed."""
        tries = _call.Tries(request, self._options)
        while True:
            try:
                return self._try(request, tries)
            except ClockdError as failed:
                time.sleep(tries.after(failed))

    def _try(self, request: _call.Request[_call.T], tries: _call.Tries) -> _call.T:
        limit = tries.limit()
        ends = time.monotonic() + limit
        body = bytearray()
        try:
            with self._http.stream(
                request.method,
                self._options.url(request.path),
                headers=tries.headers(limit),
                content=request.body,
                timeout=_call.timeouts(limit),
            ) as response:
                for part in response.iter_raw():
                    body += part
                    if len(body) > _call.RESPONSE_BYTES:
                        raise _call.too_large(response.status_code)
                    if time.monotonic() > ends:
                        raise _call.too_slow(limit)
        except _call.NO_RESPONSE as error:
            raise _call.broken(error, self._options.server) from error
        return _call.read_response(request, response.status_code, response.headers, bytes(body))


class Consumer:
    """Receives the rings of an application, and calls `handle` once for each message id, in threads of its own.

    `handle` returns the answer to a ring: None or ack() for work that is done, release(), bury(), or NO_ANSWER. If it
    raises an exception, there is no answer: the alarm rings again after its ack_timeout. A ring without ack_timeout
    needs no answer, and is lost if the work fails.
    """

    def __init__(
        self,
        options: _call.Options,
        application: str,
        handle: Callable[[Ring], Answer | None],
        consumer: ConsumerOptions,
    ) -> None:
        if not callable(handle) or inspect.iscoroutinefunction(handle):
            raise invalid("handle", "a consumer needs a handler; one of asyncio is for AsyncClient")
        self._options, self._application = options, application
        self._handle, self._consumer = handle, consumer
        self._stopped = False
        self._running: tuple[asyncio.AbstractEventLoop, AsyncConsumer] | None = None

    def run(self) -> None:
        """Handles rings until `stop`, and then the rings that were read. It goes on after each end of a connection.

        It raises a ClockdError if the service refuses the application, if the URL leads to another program, or if
        rings are left after `drain` seconds. A KeyboardInterrupt stops it too.
        """
        if self._running is not None:
            raise RuntimeError("a consumer runs once: make another one")
        asyncio.run(self._run())

    def stop(self) -> None:
        """Ends `run`. Any thread and a handler of a signal may call it."""
        self._stopped = True
        if self._running is not None:
            loop, consumer = self._running
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(consumer.stop)

    async def _run(self) -> None:
        threads = _Threads(self._consumer.concurrency, self._handle)
        try:
            async with AsyncClient.of(self._options) as client:
                consumer = AsyncConsumer(client, self._application, threads.handle, self._consumer)
                self._running = (asyncio.get_running_loop(), consumer)
                if self._stopped:
                    consumer.stop()
                await consumer.run()
        finally:
            threads.end()


class _Threads:
    """Threads that call a handler. They do not keep the program alive."""

    def __init__(self, count: int, handle: Callable[[Ring], Answer | None]) -> None:
        self._handle, self._count = handle, count
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        for n in range(count):
            threading.Thread(target=self._work, name=f"clockd-{n + 1}", daemon=True).start()

    def _work(self) -> None:
        for job in iter(self._jobs.get, None):
            job()

    async def handle(self, ring: Ring) -> Answer | None:
        """Calls the handler in a thread."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[Answer | None, BaseException | None]] = loop.create_future()

        def finish(outcome: tuple[Answer | None, BaseException | None]) -> None:
            if not done.done():
                done.set_result(outcome)

        def call() -> None:
            outcome: tuple[Answer | None, BaseException | None]
            try:
                outcome = self._handle(ring), None
            except BaseException as error:  # even a StopIteration, which a future cannot have
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(finish, outcome)

        self._jobs.put(call)
        answer, error = await done
        if error is not None:
            raise HandlerError from error
        return answer

    def end(self) -> None:
        """Ends the threads, after the calls that they make."""
        for _ in range(self._count):
            self._jobs.put(None)
