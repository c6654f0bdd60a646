"""The consumer of rings.

connect ──▶ read ──▶ ring ──▶ wait for a handler ──▶ handle ──▶ answer
   ▲         │ end, error, 50 s of silence            (only if the ring needs one)
   └─ pause ◀┘
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx

from . import _call
from ._alarm import Ring, read_ring
from ._answer import Answer, ack
from ._error import ClockdError, invalid
from ._events import Event, EventReader
from ._memory import Memory
from ._values import MALFORMED

if TYPE_CHECKING:
    from ._async_client import AsyncClient

SILENCE = 50.0
"""Seconds in which a stream may be silent. The service sends a comment every 15 s."""
_MOST_RESERVED = 64
_SHORT_RESERVE = 1.0
"""Seconds. A reserve that returns no ring sooner is followed by a pause: the service waits for one."""
_log = logging.getLogger("clockd")


class Fault(Exception):
    """A fault after which a consumer goes on; `__cause__` has the ClockdError, or the exception of the handler."""

    ring: Ring | None
    """The ring that was not handled, or whose answer was not accepted."""

    def __init__(self, text: str, ring: Ring | None = None) -> None:
        super().__init__(text)
        self.ring = ring


class HandlerError(Exception):
    """A handler in a thread has raised its cause."""


FaultHandler: TypeAlias = Callable[[Fault], None]


def log_fault(fault: Fault) -> None:
    """Logs a fault as a warning of the logger "clockd"."""
    _log.warning("%s", fault, exc_info=None if isinstance(fault.__cause__, ClockdError) else fault.__cause__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerOptions:
    """How rings are handled. The method consumer of the clients explains the options."""

    concurrency: int
    pull: bool
    read_ahead: int
    memory: int
    drain: float
    on_fault: FaultHandler

    def __post_init__(self) -> None:
        for name in ("concurrency", "read_ahead", "memory"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise invalid(name, f"{name} must be a whole number from 1, not {value!r}")
        if not isinstance(self.drain, (int, float)) or not 0 <= self.drain < float("inf"):
            raise invalid("drain", f"drain must be seconds, not {self.drain!r}")
        if not callable(self.on_fault) or inspect.iscoroutinefunction(self.on_fault):
            raise invalid("on_fault", "on_fault must be a function, and none of asyncio")


class AsyncConsumer:
    """Receives the rings of an application, and awaits `handle` once for each message id.

    `handle` returns the answer to a ring: None or ack() for work that is done, release(), bury(), or NO_ANSWER. If it
    raises an exception, there is no answer: the alarm rings again after its ack_timeout. A ring without ack_timeout
    needs no answer, and is lost if the work fails.
    """

    def __init__(
        self,
        client: AsyncClient,
        application: str,
        handle: Callable[[Ring], Awaitable[Answer | None]],
        options: ConsumerOptions,
    ) -> None:
        if not callable(handle):
            raise invalid("handle", "a consumer needs a handler")
        self._client, self._application, self._handle, self._options = client, application, handle, options
        self._memory = Memory(options.memory)
        self._rings: asyncio.Queue[Ring] = asyncio.Queue()
        self._open = 0  # rings that were read and are not handled
        self._handled = asyncio.Event()  # set when a ring was taken or handled
        self._stopped = asyncio.Event()
        self._closing = False  # whether the handlers end
        self._ran = False
        self._last_id = ""  # of the last event whose ring was handed over, from which the next stream resumes
        self._arrived = False  # whether a ring has come since the last pause

    def stop(self) -> None:
        """Ends `run`."""
        self._stopped.set()

    async def run(self) -> None:
        """Handles rings until `stop`, and then the rings that were read. It goes on after each end of a connection.

        It raises a ClockdError if the service refuses the application, if the URL leads to another program, or if
        rings are left after `drain` seconds. A cancelled task handles the rings that were read too. It runs once.
        """
        if self._ran:
            raise RuntimeError("a consumer runs once: make another one")
        self._ran = True
        source = asyncio.create_task(self._reserve() if self._options.pull else self._subscribe())
        stopped = asyncio.create_task(self._stopped.wait())
        handlers = [asyncio.create_task(self._work()) for _ in range(self._options.concurrency)]
        try:
            await asyncio.wait((source, stopped, *handlers), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            source.cancel()
            await asyncio.wait((source,))
            try:
                left = await self._drained()
            finally:
                self._closing = True
                for handler in handlers:
                    handler.cancel()
                await asyncio.wait(handlers, timeout=1)  # a handler may not end when it is cancelled
        for task in (source, *handlers):
            if task.done() and not task.cancelled():
                task.result()  # the refusal
        if left:
            raise ClockdError(
                f"rings of {self._application} that were read and not handled within {self._options.drain:g} s: {left}"
            )

    async def _drained(self) -> int:
        """Waits for the rings that were read, and returns the number of rings that are not handled."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.drain):
                await self._rings.join()
        return self._open

    async def _subscribe(self) -> None:
        """Reads streams until the service refuses them for good."""
        await self._repeatedly("stream", self._stream)

    async def _reserve(self) -> None:
        """Reserves rings until the service refuses that for good."""
        await self._repeatedly("reserve", self._reserve_once)

    async def _repeatedly(self, what: str, step: Callable[[], Awaitable[None]]) -> None:
        n = 0
        while True:
            began, self._arrived = time.monotonic(), False
            try:
                await step()
                n = 0
                continue
            except ClockdError as failed:
                again = failed.again or failed.status >= 500 or failed.code == "rings_go_elsewhere"
                if not again:
                    raise
                retry_after = failed.retry_after
                self._tell(f"{what} of {self._application}: {failed}", failed)
            n = 1 if self._arrived or time.monotonic() - began > _call.LONGEST_WAIT else n + 1
            await asyncio.sleep(_call.pause_of_stream(n, retry_after))

    async def _stream(self) -> None:
        """Hands over the rings of one stream. It ends with an error."""
        response = await self._client.open_stream(self._application, self._last_id)
        try:
            await self._check(response)
            events, parts = EventReader(), response.aiter_raw()
            while True:
                await self._hand_over(events.feed(await self._part(parts)))
        except ValueError as error:
            raise _call.unreadable(response.status_code, error) from error
        finally:
            await response.aclose()

    async def _check(self, response: httpx.Response) -> None:
        """Raises the refusal of a stream."""
        if response.status_code == 200:
            kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
            if kind != "text/event-stream":
                raise ValueError(f"it is {kind!r}, not a stream of events")
            if response.headers.get("X-Clockd-Resumed") == "false":
                self._tell(
                    f"stream of {self._application}: this node of the service cannot resume the stream: "
                    "rings without ack_timeout that were on their way may be lost"
                )
            return
        body = bytearray()
        with contextlib.suppress(*_call.NO_RESPONSE):
            async with asyncio.timeout(SILENCE):
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > _call.RESPONSE_BYTES:
                        break
        raise _call.refusal(response.status_code, response.headers, bytes(body))

    @staticmethod
    async def _part(parts: AsyncIterator[bytes]) -> bytes:
        """Returns the next bytes of a stream."""
        try:
            async with asyncio.timeout(SILENCE):
                return await anext(parts)
        except StopAsyncIteration:
            raise ClockdError("the service ended the stream", again=True) from None
        except TimeoutError as error:
            raise ClockdError(f"the service was silent for {SILENCE:g} s", again=True) from error
        except _call.NO_RESPONSE as error:
            raise _call.broken(error) from error

    async def _hand_over(self, events: Iterator[Event]) -> None:
        """Hands over the rings of events. After a stop it does not wait for room."""
        try:
            for event in events:
                self._take(event)
                while self._rings.qsize() >= self._options.read_ahead:
                    await self._change()
        except asyncio.CancelledError:
            for event in events:
                self._take(event)
            raise

    def _take(self, event: Event) -> None:
        if event.type == "ring" and event.data:  # others are of a later version of the service
            try:
                self._put(Ring.from_json(event.data))
            except ValueError as error:
                self._tell(f"stream of {self._application}: event {event.id} cannot be read: {error}", error)
        self._last_id = event.id

    def _put(self, ring: Ring) -> None:
        self._arrived = True
        self._open += 1
        self._rings.put_nowait(ring)

    async def _change(self) -> None:
        """Waits until a ring was taken or handled."""
        self._handled.clear()
        await self._handled.wait()

    async def _reserve_once(self) -> None:
        """Reserves rings for the handlers that have none."""
        while self._open >= self._options.concurrency:
            await self._change()
        began = time.monotonic()
        count = min(_MOST_RESERVED, self._options.concurrency - self._open)
        rings = await self._client.reserve_members(self._application, count)
        for ring in rings:
            self._take_reserved(ring)
        if not rings and time.monotonic() - began < _SHORT_RESERVE:
            await asyncio.sleep(_SHORT_RESERVE)

    def _take_reserved(self, members: Any) -> None:
        try:
            self._put(read_ring(members))
        except MALFORMED as error:
            self._tell(f"reserve of {self._application}: a ring cannot be read: {error}", error)

    async def _work(self) -> None:
        """Handles rings until the consumer is closing."""
        while not self._closing:
            ring = await self._rings.get()
            self._handled.set()
            try:
                await self._handle_once(ring)
            finally:
                self._open -= 1
                self._rings.task_done()
                self._handled.set()

    async def _handle_once(self, ring: Ring) -> None:
        """Calls the handler, unless the ring is a copy, and answers.

        A copy whose answer was not accepted repeats the answer.
        """
        known, unsent = self._memory.begin(ring.message_id)
        if known == "new":
            unsent = await self._answer_of(ring)
            self._memory.end(ring.message_id, unsent)
        if unsent is None or self._closing:
            return
        name = f"ring {ring.message_id} of {ring.application}/{ring.business_id}"
        if ring.ack_timeout is None:
            if unsent.kind != "ack":
                self._tell(f"{name}: {unsent.kind} has no effect, because the alarm has no ack_timeout", ring=ring)
            self._memory.end(ring.message_id, None)
            return
        try:
            await self._client.answer(ring.application, ring.message_id, unsent)
        except ClockdError as failed:
            self._tell(f"answer to {name}: {failed}", failed, ring)
            if failed.again:
                return
        self._memory.end(ring.message_id, None)

    async def _answer_of(self, ring: Ring) -> Answer | None:
        """Returns the answer of the handler; None: there is none."""
        name = f"handler of ring {ring.message_id} of {ring.application}/{ring.business_id}"
        try:
            answer = await self._handle(ring)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:
            if isinstance(raised, asyncio.CancelledError) and self._closing:
                raise
            error = raised.__cause__ if isinstance(raised, HandlerError) and raised.__cause__ else raised
            self._tell(f"{name}: {_text_of(error)}", error, ring)
            return None
        if answer is None:
            return ack()
        if not isinstance(answer, Answer):
            self._tell(f"{name}: it returned {type(answer).__name__}, not an Answer or None", ring=ring)
            return None
        return answer if answer.kind else None

    def _tell(self, text: str, cause: BaseException | None = None, ring: Ring | None = None) -> None:
        fault = Fault(text, ring)
        fault.__cause__ = cause
        try:
            self._options.on_fault(fault)
        except Exception:
            _log.exception("on_fault failed for: %s", fault)


def _text_of(error: BaseException) -> str:
    """Returns the text of any exception, even if it has no text."""
    try:
        return repr(error)
    except Exception:
        return type(error).__name__
