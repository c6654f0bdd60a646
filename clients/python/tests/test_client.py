"""Calls of both clients to a real clockd, also with faults of the connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
from conftest import SERVER, asked, busy, faulty

import clockd

LATER = datetime(2091, 1, 1, tzinfo=UTC)


def refused(call: Callable[[], Any], code: str) -> clockd.ClockdError:
    with pytest.raises(clockd.ClockdError) as caught:
        call()
    assert caught.value.code == code, caught.value
    return caught.value


def test_alarm_is_set_read_moved_and_cancelled(connect: Any, app: str) -> None:
    client = connect()
    alarm = client.set(app, "a/b%+ ü..", ring_at=LATER, payload={"order": 4711}, ack_timeout="1m30s", priority=7)
    assert (alarm.application, alarm.business_id, alarm.state, alarm.generation) == (app, "a/b%+ ü..", "scheduled", 1)
    assert (alarm.ring_at, alarm.ack_timeout, alarm.payload) == (LATER, timedelta(seconds=90), {"order": 4711})
    assert alarm.raw["priority"] == 7
    moved = client.set(app, "a/b%+ ü..", ring_at=LATER + timedelta(days=1), only_if=1)
    assert (moved.generation, moved.ring_at) == (2, LATER + timedelta(days=1))
    assert client.get(app, "a/b%+ ü..").raw == {**moved.raw, "attempts": [], "blockers": []}
    failed = refused(lambda: client.cancel(app, "a/b%+ ü..", only_if=1), "condition_failed")
    assert failed.alarm is not None and failed.alarm.generation == 2 and failed.status == 412
    assert client.cancel(app, "a/b%+ ü..", note="closed").state == "cancelled"
    assert client.cancel(app, "a/b%+ ü..").state == "cancelled"


@pytest.mark.parametrize("business_id", ["...", "😀?#&", "%2F", "a//b"])
def test_every_id_is_one_segment(connect: Any, app: str, business_id: str) -> None:
    client = connect()
    assert client.set(app, business_id, delay="1h").business_id == business_id
    assert refused(lambda: client.get(app, ".."), "invalid_business_id").status == 422


@pytest.mark.parametrize(
    ("given", "kind", "value"),
    [
        ({}, None, None),
        ({"payload": None}, "json", None),
        ({"payload": ["ü", 1.5, {}]}, "json", ["ü", 1.5, {}]),
        ({"text": ""}, "text", ""),
        ({"data": b"\x00\xff\n"}, "bytes", b"\x00\xff\n"),
    ],
)
def test_payload_returns_as_it_was_set(connect: Any, app: str, given: Any, kind: Any, value: Any) -> None:
    alarm = connect().set(app, "x", delay=timedelta(hours=1), **given)
    assert (alarm.payload_kind, alarm.payload) == (kind, value)


def test_repeating_alarm_has_its_occurrence(connect: Any, app: str) -> None:
    rule = clockd.Repeat(cron="0 9 * * MON", time_zone="Europe/Berlin", from_=LATER, skip_dates=["2091-01-08"])
    alarm = connect().set(app, "x", repeat=rule)
    # the first of January of 2091 is a Monday, and begins in Berlin before LATER
    assert alarm.occurrence is not None
    assert alarm.occurrence.number == 1
    assert alarm.occurrence.at == datetime(2091, 1, 1, 8, tzinfo=UTC)
    assert alarm.occurrence.next_at == datetime(2091, 1, 15, 8, tzinfo=UTC)


def test_local_time_has_its_instant(connect: Any, app: str) -> None:
    for local in ("2090-07-31T18:30:00", datetime(2090, 7, 31, 18, 30)):
        alarm = connect().set(app, "x", ring_at=local, time_zone="Europe/Berlin")
        assert alarm.ring_at == datetime(2090, 7, 31, 16, 30, tzinfo=UTC)


def test_faults_of_the_input_name_the_field(connect: Any, app: str) -> None:
    client = connect()
    failed = refused(lambda: client.set(app, "x", delay="1h", priority=10), "out_of_range")
    assert (failed.field, failed.status, failed.unconfirmed) == ("priority", 422, False)
    assert refused(lambda: client.set(app, "x"), "required").field
    assert refused(lambda: client.set(app, "x", delay="soon"), "invalid_value").field == "delay"
    naive = datetime(2091, 1, 1)
    for field, given in {"ring_at": {"ring_at": naive}, "delay": {"delay": 5}, "": {"payload": object()}}.items():
        failed = refused(lambda given=given: client.set(app, "x", **given), "invalid_value")  # type: ignore[misc]
        assert (failed.field, failed.status) == (field, 0)
    assert refused(lambda: client.set(app, "x", payload=1, text="x"), "invalid_value").field == "payload"
    assert refused(lambda: client.get(app, 4711), "invalid_value").field == "business_id"
    for name, value in {"repeat": {}, "retry": 5, "data": "x", "receiver": [], "traceparent": 5, "text": b""}.items():
        failed = refused(lambda n=name, v=value: client.set(app, "x", delay="1h", **{n: v}), "invalid_value")  # type: ignore[misc]
        assert failed.field == name
    with pytest.raises(TypeError, match="dely"):
        client.set(app, "x", dely="1h")
    assert refused(lambda: client.get(app, "x"), "unknown_alarm").status == 404


@pytest.mark.parametrize(
    "options",
    [
        {"server": "localhost:8080"},
        {"server": "ftp://x"},
        {"server": "http://x/?"},
        {"server": "http://me:secret@x"},
        {"token": "a\nb"},
        {"token": 5},
        {"tries": 0},
        {"tries": "3"},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"try_timeout": float("inf")},
    ],
)
def test_wrong_options_are_refused(options: Any) -> None:
    with pytest.raises(clockd.ClockdError, match="invalid_value") as caught:
        clockd.Client(**options)
    assert "secret" not in str(caught.value)


def test_batch_returns_sets_then_cancels(connect: Any, app: str) -> None:
    client = connect()
    results = client.batch(
        app,
        [
            clockd.Cancel("a"),
            clockd.Set("a", delay="1h", text="x"),
            clockd.Set("b", delay="1h", priority=-1),
            clockd.Cancel("missing"),
        ],
    )
    assert [(r.business_id, r.status, r.state) for r in results if r.error is None] == [
        ("a", 201, "scheduled"),
        ("a", 200, "cancelled"),
    ]
    assert [(r.business_id, r.error.code, r.error.field) for r in results if r.error is not None] == [
        ("b", "out_of_range", "priority"),
        ("missing", "unknown_alarm", ""),
    ]
    assert client.batch(app, []) == []
    for wrong in (
        clockd.Set("x", delay="1h", only_if=1),
        clockd.Set("x", delay="1h", traceparent="00-1"),
        clockd.Set("", delay="1h"),
        clockd.Cancel(""),
        "x",
    ):
        refused(lambda wrong=wrong: client.batch(app, [wrong]), "invalid_value")  # type: ignore[misc]


@pytest.mark.parametrize("only_if", ["7", 7.0, True, "now"])
def test_condition_is_never_dropped(connect: Any, app: str, only_if: Any) -> None:
    client = connect()
    client.set(app, "x", delay="1h")
    assert refused(lambda: client.cancel(app, "x", only_if=only_if), "invalid_value").field == "only_if"
    assert refused(lambda: client.set(app, "x", delay="2h", only_if=only_if), "invalid_value").field == "only_if"
    assert refused(lambda: client.cancel(app, "x", only_if="absent"), "invalid_value").field == "only_if"
    assert client.get(app, "x").generation == 1


def test_number_with_many_digits_is_read(connect: Any, app: str) -> None:
    digits = "9" * 5000
    with httpx.Client(base_url=SERVER) as http:
        http.put(f"/v1/applications/{app}/alarms/x", content=f'{{"delay":"1h","payload":{digits}}}').raise_for_status()
    assert connect().get(app, "x").payload == Decimal(digits)
    assert [alarm.business_id for alarm in connect().alarms(app)] == ["x"]


# What a server may send that is not clockd's.
@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"business_id":"x","state":"rung","ack_timeout":"99999999999999999h"}',
        '{"business_id":"x","state":"rung","ring_at":"0001-01-01T00:00:00+01:00"}',
        '{"business_id":"x","state":"rung","attempts":[5]}',
    ],
    ids=["deep", "long", "early", "attempts"],
)
def test_strange_responses_are_failures(connect: Any, app: str, body: str) -> None:
    responses = [{"status": 200, "body": body}, {"status": 404, "headers": {"Retry-After": "9" * 5000}, "body": body}]
    client = connect(faulty(*responses))
    assert "cannot be read" in refused(lambda: client.get(app, "x"), "").detail
    assert refused(lambda: client.get(app, "x"), "").status == 404


def test_alarms_are_listed_over_pages(connect: Any, app: str) -> None:
    client = connect()
    client.batch(app, [clockd.Set(f"order-{n:04}", ring_at=LATER) for n in range(1000)])
    client.batch(app, [clockd.Set("x", delay="1h"), clockd.Cancel("order-0007")])

    def ids(**selected: Any) -> list[str]:
        return [alarm.business_id for alarm in client.alarms(app, **selected)]

    assert len(ids()) == 1001
    assert ids(limit=0) == []
    assert len(ids(limit=1001)) == 1001
    assert ids(limit=2) == ["order-0000", "order-0001"]
    assert ids(prefix="order-000", states=["cancelled", "dead"]) == ["order-0007"]
    assert ids(due_before=datetime.now(UTC) + timedelta(hours=2)) == ["x"]


@pytest.mark.parametrize(
    "fault",
    ["cut", "lose", "half", busy("unavailable"), busy("unconfirmed"), {"status": 502, "body": "<html>"}],
    ids=["cut", "lose", "half", "unavailable", "unconfirmed", "proxy"],
)
def test_calls_are_repeated_after_faults_that_pass(connect: Any, app: str, fault: Any) -> None:
    url = faulty(fault, fault)
    client = connect(url)
    assert client.set(app, "x", ring_at=LATER).generation == 1
    assert asked(url) == [f"PUT /v1/applications/{app}/alarms/x"] * 3
    assert client.cancel(app, "x").state == "cancelled"


@pytest.mark.parametrize("fault", ["cut", "lose", busy("unavailable")], ids=["cut", "lose", "unavailable"])
def test_set_with_a_delay_is_repeated_only_if_absent(connect: Any, app: str, fault: Any) -> None:
    url = faulty(fault)
    failed = refused(lambda: connect(url).set(app, "x", delay="1h"), "unavailable" if isinstance(fault, dict) else "")
    assert failed.unconfirmed == (not isinstance(fault, dict))
    assert len(asked(url)) == 1
    url = faulty(fault)
    if fault == "lose":  # the first try has set the alarm
        failed = refused(lambda: connect(url).set(app, "y", delay="1h", only_if="absent"), "condition_failed")
        assert failed.unconfirmed and failed.alarm is not None and failed.alarm.generation == 1
    else:
        assert connect(url).set(app, "y", delay="1h", only_if="absent").generation == 1
    assert len(asked(url)) == 2


def test_call_ends_with_its_time(connect: Any, app: str) -> None:
    url = faulty("stall", "stall")
    began = time.monotonic()
    failed = refused(lambda: connect(url, timeout=0.3).set(app, "x", ring_at=LATER), "")
    assert failed.unconfirmed and failed.__cause__ is not None
    assert len(asked(url)) <= 1  # none if the machine is too busy
    assert time.monotonic() - began >= 0.29  # the timer is the client's own


def test_try_that_is_too_slow_is_repeated(connect: Any, app: str) -> None:
    url = faulty("stall")
    assert connect(url, try_timeout=1).set(app, "x", ring_at=LATER).generation == 1
    assert len(asked(url)) >= 2  # more if the machine is too busy


def test_server_that_cannot_be_reached_has_changed_nothing(connect: Any, app: str) -> None:
    failed = refused(lambda: connect("http://127.0.0.1:1", tries=2).set(app, "x", ring_at=LATER), "")
    assert (failed.status, failed.unconfirmed, failed.again) == (0, False, True)


def test_answer_whose_response_was_lost_is_no_failure(connect: Any, app: str) -> None:
    client, url = connect(name="worker-7"), faulty("lose")
    for _ in range(2):
        with pytest.raises(clockd.ClockdError, match="unknown_ring"):
            client.ack(app, "1.1.1")
    client.set(app, "x", delay="0s", ack_timeout="1h")
    rings: list[clockd.Ring] = []
    consumer = client.consumer(app, lambda ring: rings.append(ring) or consumer.stop() or clockd.NO_ANSWER)
    consumer.run()
    alarm = connect(url, name="worker-7").answer(app, rings[0].message_id, clockd.bury(reason="broken"))
    assert (alarm.state, alarm.answer, alarm.answered_by, alarm.last_error) == (
        "dead",
        "bury",
        "worker-7",
        "buried: broken",
    )
    assert len(asked(url)) == 2
    assert refused(lambda: client.ack(app, rings[0].message_id), "stale_ring").alarm is not None
