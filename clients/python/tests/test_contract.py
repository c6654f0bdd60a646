"""The contract that the clients in all languages have: clients/contract.json."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

import clockd
from clockd import _call, _client
from clockd._events import EventReader
from clockd._values import read_duration

CONTRACT: dict[str, Any] = json.loads((Path(__file__).parents[2] / "contract.json").read_text())
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def named(cases: list[dict[str, Any]]) -> Any:
    """Makes a test of each case."""
    return pytest.mark.parametrize("case", cases, ids=[case.get("name", str(n)) for n, case in enumerate(cases)])


def duration(us: int | None) -> timedelta | None:
    return None if us is None else timedelta(microseconds=us)


def micros(value: datetime | timedelta | None) -> int | None:
    if isinstance(value, datetime):
        value = value - EPOCH
    return None if value is None else value // timedelta(microseconds=1)


def test_segments() -> None:
    cases = CONTRACT["segments"]
    for text in cases["ids"]:
        segment = _call.segment(text)
        assert unquote(segment) == text
        assert not [c for c in cases["without"] if c in segment]
    for case in cases["same"]:
        assert _call.segment(case["id"]) == case["segment"]


@named(CONTRACT["durations"])
def test_durations(case: dict[str, Any]) -> None:
    if case["us"] is None:
        with pytest.raises(ValueError):
            read_duration(case["text"])
    else:
        assert micros(read_duration(case["text"])) == case["us"]


def value_of(name: str, value: Any) -> tuple[str, Any]:
    """Returns a member of a set as the client names and takes it."""
    if name == "data_base64":
        return "data", base64.b64decode(value)
    if name == "ring_at_local":
        return "ring_at", value
    if name in ("retry", "repeat"):
        kind: Callable[..., Any] = clockd.Retry if name == "retry" else clockd.Repeat
        return name, kind(**dict(value_of(n, v) for n, v in value.items()))
    if not name.endswith("_us"):
        return name, value
    name = name.removesuffix("_us")
    if name in ("ring_at", "latest_ring_at", "anchor", "from", "until"):
        return "from_" if name == "from" else name, EPOCH + timedelta(microseconds=value)
    return name, timedelta(microseconds=value)


@named(CONTRACT["sets"])
def test_sets(case: dict[str, Any]) -> None:
    fields = dict(value_of(n, v) for n, v in case["set"].items())
    if "refused" in case:
        with pytest.raises(clockd.ClockdError) as caught:
            _call.set_request("shop", clockd.Set("x", **fields))
        assert (caught.value.code, caught.value.field) == ("invalid_value", case["refused"])
        return
    request = _call.set_request("shop", clockd.Set("x", **fields))
    assert request.body is not None
    assert json.loads(request.body) == case["body"]
    assert dict(request.headers) == case.get("headers", {})
    assert request.repeat == (case["repeat"] == "always")


@named(CONTRACT["answers"])
def test_answers(case: dict[str, Any]) -> None:
    given = {name: case[name] for name in ("reason", "by") if name in case}
    if "delay_us" in case:
        given["delay"] = duration(case["delay_us"])
    request = _call.answer_request("shop", "1.1.1", getattr(clockd, case["kind"])(**given), "")
    assert request.path == f"/v1/applications/shop/rings/1.1.1/{case['kind']}"
    assert request.body is not None
    assert json.loads(request.body) == case["body"]


def play(failure: dict[str, Any]) -> httpx.Response:
    """Fails as the contract says."""
    if "status" in failure:
        body = httpx.ByteStream(failure["body"].encode())
        return httpx.Response(failure["status"], headers=failure.get("headers"), stream=body)
    raise httpx.ReadError("reset by peer") if failure["sent"] else httpx.ConnectError("refused")


def played(failure: dict[str, Any], asked: list[httpx.Request], **options: Any) -> clockd.Client:
    """Returns a client whose requests fail."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return play(failure)

    client = clockd.Client("http://service", **options)
    client._http = httpx.Client(transport=httpx.MockTransport(answer))
    return client


@named(CONTRACT["failures"])
def test_failures(case: dict[str, Any]) -> None:
    with played(case, [], tries=1) as client, pytest.raises(clockd.ClockdError) as caught:
        client.cancel("shop", "x")
    failed, want = caught.value, case.get("want", {})
    assert (failed.again, failed.unconfirmed) == (case["again"], case["sent"])
    assert (failed.status, failed.code, failed.field) == (
        want.get("status", 0),
        want.get("code", ""),
        want.get("field", ""),
    )
    assert failed.detail == want.get("detail", failed.detail)
    assert failed.retry_after == want.get("retry_after_s", 0)
    assert (failed.alarm.business_id if failed.alarm else None) == want.get("alarm")
    assert str(failed) == want.get("text", str(failed))


CALLS: dict[str, Callable[[clockd.Client], Any]] = {
    "get": lambda c: c.get("shop", "x"),
    "list": lambda c: list(c.alarms("shop")),
    "cancel": lambda c: c.cancel("shop", "x"),
    "ack": lambda c: c.ack("shop", "1.1.1"),
    "release": lambda c: c.answer("shop", "1.1.1", clockd.release()),
    "bury": lambda c: c.answer("shop", "1.1.1", clockd.bury()),
    "touch": lambda c: c.answer("shop", "1.1.1", clockd.touch()),
    "set with ring_at": lambda c: c.set("shop", "x", ring_at=EPOCH),
    "set with delay": lambda c: c.set("shop", "x", delay="1m"),
    "set with delay, absent": lambda c: c.set("shop", "x", delay="1m", only_if="absent"),
    "batch with ring_at": lambda c: c.batch("shop", [clockd.Set("x", ring_at=EPOCH)]),
    "batch with a delay": lambda c: c.batch("shop", [clockd.Set("x", ring_at=EPOCH), clockd.Set("y", delay="1m")]),
    "reserve": lambda c: c.reserve("shop"),
}


@named(CONTRACT["failures"])
def test_repeats(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_client.time, "sleep", lambda _: None)
    assert CALLS.keys() == CONTRACT["repeats"].keys()
    for name, repeat in CONTRACT["repeats"].items():
        asked: list[httpx.Request] = []
        with played(case, asked, tries=4) as client, pytest.raises(clockd.ClockdError):
            CALLS[name](client)
        again = case["again"] and (repeat == "always" or (repeat == "unsent" and not case["sent"]))
        assert len(asked) == (4 if again else 1), name


@named(CONTRACT["waits"])
def test_waits(case: dict[str, Any]) -> None:
    for _ in range(100):
        wait = _call.backoff(case["try"], case["retry_after_s"])
        if case["min_ms"] is None:
            assert wait is None
        else:
            assert wait is not None
            assert case["min_ms"] <= wait * 1000 <= case["max_ms"]


@named(CONTRACT["retry_after"])
def test_retry_after(case: dict[str, Any]) -> None:
    assert _call.read_retry_after(case["value"]) == case["s"]


@named(CONTRACT["events"])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_events(case: dict[str, Any], size: int) -> None:
    stream = case["stream"].encode()
    reader = EventReader()
    events = [e for at in range(0, len(stream), size) for e in reader.feed(stream[at : at + size])]
    assert [{"id": e.id, "type": e.type, "data": e.data} for e in events] == case["events"]


@named(CONTRACT["rings"])
def test_rings(case: dict[str, Any]) -> None:
    want = case["want"]
    if want is None:
        with pytest.raises(ValueError):
            clockd.Ring.from_json(case["json"])
        return
    ring = clockd.Ring.from_json(case["json"])
    kinds = {"payload": "json", "text": "text", "data_base64": "bytes"}
    for name, value in want.items():
        if name == "occurrence":
            assert ring.occurrence is not None
            times = {f"{n}_us": micros(getattr(ring.occurrence, n)) for n in ("at", "previous_at", "next_at")}
            assert {"number": ring.occurrence.number, **times} == value
        elif name in kinds:
            assert ring.payload_kind == kinds[name]
            assert ring.payload == (base64.b64decode(value) if name == "data_base64" else value)
        elif name.endswith("_us"):
            assert micros(getattr(ring, name.removesuffix("_us"))) == value, name
        else:
            assert getattr(ring, name) == value, name


@named(CONTRACT["webhooks"]["secrets"])
def test_secrets(case: dict[str, Any]) -> None:
    if case["valid"]:
        clockd.Verifier(*case["secrets"])
    else:
        with pytest.raises(ValueError):
            clockd.Verifier(*case["secrets"])


@named(CONTRACT["webhooks"]["requests"])
def test_webhooks(case: dict[str, Any]) -> None:
    common = CONTRACT["webhooks"]
    tolerance = timedelta(seconds=case.get("tolerance_s", 300))
    verifier = clockd.Verifier(*case.get("secrets", [common["published"]]), tolerance=tolerance)
    headers = case.get("headers", {**common["headers"], **case.get("changed", {})})
    body = case.get("body", common["body"]).encode()
    fault = "valid"
    try:
        message_id = verifier.verify(headers, body, now=EPOCH + timedelta(seconds=case["now_s"]))
        assert message_id == common["headers"]["webhook-id"]
    except clockd.WebhookError as error:
        fault = error.fault
        assert not re.search(r"whsec_|v1,", str(error))
    assert fault == case["want"]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", CONTRACT["webhooks"]["headers"])
def test_header_that_occurs_twice_is_no_webhook(name: str, first: bool) -> None:
    common = CONTRACT["webhooks"]
    pairs = list(common["headers"].items())
    pairs.insert(0 if first else len(pairs), (name.upper(), "other"))
    headers = Message()
    for header, value in pairs:
        headers[header] = value
    with pytest.raises(clockd.WebhookError) as caught:
        clockd.Verifier(common["published"]).verify(
            headers, common["body"].encode(), now=EPOCH + timedelta(seconds=1614265330)
        )
    assert caught.value.fault == "headers"


def test_event_of_empty_lines_is_bounded() -> None:
    reader = EventReader()
    with pytest.raises(ValueError, match="more than"):
        for _ in range(20):
            list(reader.feed(b"data\n" * (1 << 20)))
