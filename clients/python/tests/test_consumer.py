"""Consumers of both clients, with streams that are cut and a clockd that is killed."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from conftest import SERVER, asked, busy, faulty, wish

import clockd


class Consuming:
    """A consumer that runs in a thread."""

    def __init__(self, client: Any, app: str, handle: Callable[[clockd.Ring], Any], **options: Any) -> None:
        self.rings: queue.Queue[clockd.Ring] = queue.Queue()
        self.faults: queue.Queue[clockd.Fault] = queue.Queue()
        self.error: BaseException | None = None

        def handled(ring: clockd.Ring) -> Any:
            self.rings.put(ring)
            return handle(ring)

        self._consumer = client.consumer(app, handled, **{"on_fault": self.faults.put, **options})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._consumer.run()
        except BaseException as error:
            self.error = error

    def ring(self) -> clockd.Ring:
        """Returns the next ring that was handled."""
        return self.rings.get(timeout=60)

    def fault(self) -> str:
        """Returns the text of the next fault."""
        return str(self.faults.get(timeout=60))

    def end(self) -> None:
        """Waits for the end of the consumer."""
        self._thread.join(60)
        assert not self._thread.is_alive()

    def stop(self) -> None:
        self._consumer.stop()
        self.end()


@pytest.fixture
def consume(connect: Any) -> Iterator[Callable[..., Consuming]]:
    """Starts consumers, which end with the test."""
    started: list[Consuming] = []

    def start(
        app: str, handle: Callable[[clockd.Ring], Any], server: str = SERVER, try_timeout: float = 20, **options: Any
    ) -> Consuming:
        client = connect(server, name="worker-7", try_timeout=try_timeout)
        started.append(Consuming(client, app, handle, **options))
        return started[-1]

    yield start
    for consuming in started:
        consuming.stop()


def done(_: clockd.Ring) -> None:
    """Handles a ring."""


def set_soon(app: str, *ids: str, server: str = SERVER, **fields: Any) -> None:
    """Sets new alarms that are due at once."""
    with clockd.Client(server) as client:
        for business_id in ids:
            client.set(app, business_id, delay="0s", only_if="absent", **fields)


def await_alarm(app: str, business_id: str, state: str, server: str = SERVER) -> clockd.Alarm:
    """Waits until the alarm has the state."""
    with clockd.Client(server) as client:
        while True:
            alarm = client.get(app, business_id)
            if alarm.state == state:
                return alarm


def test_rings_arrive_as_they_were_set(consume: Any, app: str) -> None:
    payloads: dict[str, dict[str, Any]] = {
        "json": {"payload": {"order": 4711}},
        "text": {"text": "a\nb"},
        "bytes": {"data": b"\0\xff"},
    }
    for business_id, payload in payloads.items():
        set_soon(app, business_id, **payload)
    consuming = consume(app, done)
    for _ in payloads:
        ring = consuming.ring()
        assert ring.payload_kind == ring.business_id
        assert ring.payload == next(iter(payloads[ring.business_id].values()))
        assert (ring.application, ring.generation, ring.ring_no, ring.ack_timeout) == (app, 1, 1, None)


def test_handler_says_how_rings_are_answered(consume: Any, app: str) -> None:
    answers = {
        "buried": clockd.bury(reason="broken", by="test"),
        "released": clockd.release(delay="1h", reason="later"),
    }

    def handle(ring: clockd.Ring) -> Any:
        if ring.business_id == "fails":
            raise RuntimeError("no database")
        return answers.get(ring.business_id)

    consuming = consume(app, handle, concurrency=4)
    set_soon(app, "done", "buried", "released", "fails", ack_timeout="1h")
    assert await_alarm(app, "done", "rung").answered_by == "worker-7"
    assert await_alarm(app, "buried", "dead").answered_by == "test"
    assert await_alarm(app, "released", "scheduled").answer == "release"
    fault = consuming.faults.get(timeout=60)
    assert isinstance(fault.__cause__, RuntimeError) and fault.ring is not None and fault.ring.business_id == "fails"
    assert await_alarm(app, "fails", "ringing").answer is None


def test_answer_without_effect_is_told(consume: Any, app: str) -> None:
    consuming = consume(app, lambda _: clockd.bury())
    set_soon(app, "x")
    assert "bury has no effect" in consuming.fault()


# The stream is cut in the middle of a ring. The next one resumes it, so the ring comes again at once.
def test_consumer_goes_on_after_cut_streams(consume: Any, app: str) -> None:
    url = faulty("cut", {"status": 503, "body": "<html>"}, "stall", "half-ring")
    consuming = consume(app, done, server=url, try_timeout=2)
    for text in ("disconnected", "status 503", "not respond within 2 s"):
        assert text in consuming.fault()
    set_soon(app, "x", ack_timeout="1h")
    assert (consuming.ring().ring_no, await_alarm(app, "x", "rung").ring_no) == (1, 1)


def test_each_message_id_is_handled_once(consume: Any, app: str) -> None:
    consuming = consume(app, done, server=faulty("copies"))
    set_soon(app, "a", "b", ack_timeout="1h")
    await_alarm(app, "b", "rung")
    set_soon(app, "c")  # behind the copies
    ids = [consuming.ring().business_id for _ in range(3)]
    consuming.stop()
    assert (sorted(ids), consuming.rings.qsize(), consuming.error) == (["a", "b", "c"], 0, None)


def test_consumer_outlasts_a_killed_clockd(consume: Any) -> None:
    url = wish("start", {})["url"]
    consuming = consume("shop", done, server=url)
    set_soon("shop", "before", server=url, ack_timeout="1h")
    assert consuming.ring().business_id == "before"
    await_alarm("shop", "before", "rung", server=url)
    wish("kill", {"url": url})
    assert "stream of shop" in consuming.fault()
    wish("start", {"url": url})
    set_soon("shop", "after", server=url, ack_timeout="1h")
    assert consuming.ring().business_id == "after"
    await_alarm("shop", "after", "rung", server=url)
    consuming.stop()
    wish("kill", {"url": url})


@pytest.mark.parametrize("concurrency", [1, 3])
def test_worker_reserves_rings(consume: Any, app: str, concurrency: int) -> None:
    wish("target", {"application": app, "target": "pull"})
    ids = {f"x{n}" for n in range(5)}
    set_soon(app, *sorted(ids), ack_timeout="1s")  # after which the ring of the lost response rings again
    consuming = consume(app, done, server=faulty("cut", "lose", busy()), pull=True, concurrency=concurrency)
    while ids:
        ids.discard(consuming.ring().business_id)


def test_refusal_ends_the_consumer(consume: Any, app: str) -> None:
    for server, name, code in (
        (SERVER, "-", "invalid_application"),
        (faulty({"status": 403, "body": "<html>"}), app, ""),
        (faulty({"status": 200, "body": "<html>"}), app, ""),
        (faulty({"status": 200, "body": "[" * 100_000}), app, ""),
    ):
        consuming = consume(name, done, server=server)
        consuming.end()
        assert isinstance(consuming.error, clockd.ClockdError)
        assert consuming.error.code == code


def test_rings_that_were_read_are_handled_after_the_stop(consume: Any, app: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def handle(_: clockd.Ring) -> None:
        begun.set()
        go_on.wait(60)

    set_soon(app, "a", ack_timeout="1h")
    consuming = consume(app, handle)
    begun.wait(60)
    threading.Thread(target=consuming.stop).start()
    go_on.set()
    consuming.end()
    assert consuming.error is None
    assert await_alarm(app, "a", "rung").answer == "ack"


def test_rings_that_are_left_are_counted(consume: Any, app: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def handle(_: clockd.Ring) -> None:
        begun.set()
        go_on.wait(60)

    set_soon(app, "a", ack_timeout="1h")
    consuming = consume(app, handle, drain=0.05)
    begun.wait(60)
    stopping = threading.Thread(target=consuming.stop)
    stopping.start()
    consuming.end()
    go_on.set()
    stopping.join()
    assert str(consuming.error) == f"rings of {app} that were read and not handled within 0.05 s: 1"


class Odd(BaseException):
    """Not an Exception, as some libraries for timeouts have it."""


class Unspeakable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [StopIteration(), asyncio.CancelledError(), Odd(), GeneratorExit(), Unspeakable()],
    ids=lambda e: type(e).__name__,
)
def test_handler_may_raise_anything(consume: Any, app: str, error: BaseException) -> None:
    def handle(ring: clockd.Ring) -> None:
        if ring.business_id == "a":
            raise error

    consuming = consume(app, handle)
    set_soon(app, "a", ack_timeout="1h")
    fault = consuming.faults.get(timeout=60)
    assert fault.ring is not None and fault.ring.business_id == "a"
    set_soon(app, "b", ack_timeout="1h")
    await_alarm(app, "b", "rung")


@pytest.mark.parametrize("answer", [True, "ack", object()], ids=["bool", "str", "object"])
def test_handler_that_returns_no_answer_is_told(consume: Any, app: str, answer: Any) -> None:
    consuming = consume(app, lambda _: answer)
    set_soon(app, "x", ack_timeout="1h")
    assert "not an Answer or None" in consuming.fault()


def stream_of(events: Iterable[str]) -> dict[str, Any]:
    return {"status": 200, "headers": {"Content-Type": "text/event-stream"}, "body": "".join(events)}


def test_event_that_cannot_be_read_is_skipped(consume: Any, app: str) -> None:
    events = "".join(
        f"event: ring\nid: {n}\ndata: {data}\n\n" for n, data in enumerate(["{garbage", "null", "{}", "[" * 99_999])
    )
    stream = {"status": 200, "headers": {"Content-Type": "text/event-stream"}, "body": events}
    consuming = consume(app, done, server=faulty(stream))
    for _ in range(4):
        assert "cannot be read" in consuming.fault()
    set_soon(app, "x", ack_timeout="1h")
    assert consuming.ring().business_id == "x"


def ring_event(n: int) -> str:
    return f'event: ring\nid: é{n}\ndata: {{"message_id":"{n}.1.1","business_id":"{n}","application":"x"}}\n\n'


def test_rings_beyond_the_read_ahead_are_handled_after_the_stop(consume: Any, app: str) -> None:
    go_on = threading.Event()

    def handle(_: clockd.Ring) -> None:
        go_on.wait(60)

    stream = {
        "status": 200,
        "headers": {"Content-Type": "text/event-stream"},
        "body": "".join(map(ring_event, range(10))),
    }
    consuming = consume(app, handle, server=faulty(stream), read_ahead=2)
    assert consuming.ring().business_id == "0"
    stopping = threading.Thread(target=consuming.stop)
    stopping.start()
    go_on.set()
    stopping.join()
    assert ([consuming.ring().business_id for _ in range(9)], consuming.error) == ([str(n) for n in range(1, 10)], None)


def test_consumer_runs_once(connect: Any, app: str) -> None:
    consumer = connect().consumer(app, done)
    consumer.stop()
    consumer.run()
    with pytest.raises(RuntimeError, match="once"):
        consumer.run()
    consumer.stop()


@pytest.mark.parametrize(
    "options", [{"concurrency": 0}, {"concurrency": 2.5}, {"memory": "1"}, {"drain": float("nan")}, {"on_fault": 5}]
)
def test_wrong_options_of_a_consumer_are_refused(connect: Any, app: str, options: Any) -> None:
    with pytest.raises(clockd.ClockdError, match="invalid_value"):
        connect().consumer(app, done, **options)


def test_functions_of_asyncio_are_refused() -> None:
    async def handle(_: Any) -> None: ...

    with clockd.Client(SERVER) as client, pytest.raises(clockd.ClockdError, match="AsyncClient"):
        client.consumer("shop", handle)  # type: ignore[arg-type]
    with clockd.Client(SERVER) as client, pytest.raises(clockd.ClockdError, match="on_fault"):
        client.consumer("shop", done, on_fault=handle)  # type: ignore[arg-type]


def test_handler_that_does_not_end_when_cancelled_does_not_hold_the_consumer(app: str) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def handle(_: clockd.Ring) -> None:
            begun.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

        async with clockd.AsyncClient(SERVER) as client:
            consumer = client.consumer(app, handle, drain=0.05)
            running = asyncio.create_task(consumer.run())
            await begun.wait()
            consumer.stop()
            with pytest.raises(clockd.ClockdError, match="not handled within"):
                await running

    set_soon(app, "x", ack_timeout="1h")
    asyncio.run(main())
    with clockd.Client(SERVER) as client:
        assert client.get(app, "x").state == "ringing"


def test_reserves_without_rings_do_not_spin(consume: Any, app: str) -> None:
    wish("target", {"application": app, "target": "pull"})
    empty = {"status": 200, "body": '{"rings":[]}'}
    url = faulty(*[empty] * 3)
    began = time.monotonic()
    consume(app, done, server=url, pull=True)
    while len(asked(url)) < 3:
        time.sleep(0.01)
    assert time.monotonic() - began > 1.9  # the timer is the consumer's own
