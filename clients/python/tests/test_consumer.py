"""Consumers of both clients, with streams that are cut and a clockd that is killed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import SERVER, busy, faulty, wish

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
    consuming = consume(app, done, server=url, try_timeout=1)
    for text in ("disconnected", "status 503", "not respond within 1 s"):
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
    set_soon(app, *sorted(ids), ack_timeout="1h")
    consuming = consume(app, done, server=faulty("cut", "lose", busy()), pull=True, concurrency=concurrency)
    assert {consuming.ring().business_id for _ in ids} <= ids


def test_refusal_ends_the_consumer(consume: Any, app: str) -> None:
    for server, name, code in (
        (SERVER, "-", "invalid_application"),
        (faulty({"status": 403, "body": "<html>"}), app, ""),
        (faulty({"status": 200, "body": "<html>"}), app, ""),
        (
            faulty(
                {"status": 200, "headers": {"Content-Type": "text/event-stream"}, "body": "event: ring\ndata: {}\n\n"}
            ),
            app,
            "",
        ),
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
