"""What an alarm is to be."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from types import UnionType
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from ._error import invalid
from ._values import Duration, Instant, write_duration, write_instant

OnlyIf: TypeAlias = Literal["absent", "earlier", "later"] | int


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """The policy for rings that fail: the longest wait is initial * factor^(tries-1), at most cap."""

    initial: Duration | None = None
    """Default 1 s."""
    factor: float | None = None
    """Default 2. With 1 all waits are the same."""
    cap: Duration | None = None
    """Default 30 s."""
    limit: int | None = None
    """Retries until the alarm is dead; default: until latest_ring_at."""

    def body(self) -> dict[str, Any]:
        """Returns the policy as JSON."""
        return _given(
            initial=_duration("retry.initial", self.initial),
            factor=self.factor,
            cap=_duration("retry.cap", self.cap),
            limit=self.limit,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeat:
    """The rule of an alarm that rings again. It has cron or every."""

    cron: str | None = None
    """Five fields, six with the second first, or a short form such as @daily."""
    time_zone: str | None = None
    """IANA name, for cron only; default UTC."""
    every: Duration | None = None
    """Period, from 1 s to 3660 days."""
    anchor: Instant | None = None
    """An occurrence, for every only; no occurrence is before it. Default: one period after the first set."""
    from_: Instant | None = None
    """Earliest possible occurrence; default: no begin."""
    until: Instant | None = None
    """Latest possible occurrence; default: no end."""
    skip_dates: Sequence[date | str] = ()
    """Local dates without an occurrence, for cron only; at most 100."""
    times: int | None = None
    """Number of occurrences; default: no limit."""
    jitter: Duration | None = None
    """Longest random delay of a ring, at most 24 h; default: none."""
    latest_after: Duration | None = None
    """Time after an occurrence until which it may ring; default: however late."""
    missed: Literal["once", "skip", "all"] | None = None
    """Effect of missed occurrences; default once: the latest one rings, however late."""
    missed_limit: int | None = None
    """Most late rings with missed="all", up to 1000; default 100."""
    missed_window: Duration | None = None
    """Longest lateness of a missed occurrence that still rings; default: however late."""
    overlap: Literal["skip", "queue_one"] | None = None
    """Effect of an occurrence while an earlier ring is not over; default skip."""
    pause_after: int | None = None
    """Number of failed occurrences in a row that pauses the alarm; default: none does."""
    dst: Literal["ring_once"] | None = None
    """Effect of daylight saving on fixed times, for cron only; default ring_once."""

    def body(self) -> dict[str, Any]:
        """Returns the rule as JSON."""
        return _given(
            cron=self.cron,
            time_zone=self.time_zone,
            every=_duration("repeat.every", self.every),
            anchor=_instant("repeat.anchor", self.anchor),
            until=_instant("repeat.until", self.until),
            skip_dates=[str(day) for day in self.skip_dates] or None,
            times=self.times,
            jitter=_duration("repeat.jitter", self.jitter),
            latest_after=_duration("repeat.latest_after", self.latest_after),
            missed=self.missed,
            missed_limit=self.missed_limit,
            missed_window=_duration("repeat.missed_window", self.missed_window),
            overlap=self.overlap,
            pause_after=self.pause_after,
            dst=self.dst,
            **{"from": _instant("repeat.from", self.from_)},
        )


class SetFields(TypedDict, total=False):
    """The fields of a set. It needs ring_at, delay or repeat."""

    ring_at: Instant
    """Time to ring. A time in the past rings at once. With time_zone: a local time, as a text or a naive datetime."""
    time_zone: str
    """IANA name, with a local ring_at only."""
    delay: Duration
    """Time from the arrival of the set at the service until the ring."""
    repeat: Repeat
    """Rule of an alarm that rings again."""
    latest_ring_at: Instant
    """Last time to ring, after which the alarm expires; not with repeat. Default: however late."""
    payload: Any
    """A value of JSON for the ring; default: no payload."""
    text: str
    """A text for the ring, in place of payload."""
    data: bytes
    """Bytes for the ring, in place of payload."""
    content_type: str
    """Default by the payload."""
    only_if: OnlyIf
    """absent: no alarm has this id. earlier, later: the new time is so, or no alarm is pending. A number: the
    alarm has this generation. Default: no condition."""
    retry: Retry
    """Policy for rings that fail."""
    ack_timeout: Duration
    """Time for an answer to a ring, 1 s to 24 h, or timedelta(0): none is needed. Default: as the settings say."""
    max_rings: int
    """Rings without an answer until the alarm is dead; default 10."""
    priority: int
    """0 to 9; among alarms due at the same instant the higher rings first."""
    delivery: Literal["at_least_once", "at_most_once"]
    """Default at_least_once."""
    target: str
    """Target or destination, such as webhook/refunds, if the settings allow it; default: the application's."""
    receiver: Mapping[str, Any]
    """Fields of the receiver, where the settings allow them; needs target."""
    traceparent: str
    """W3C trace context, which the rings carry; not in a batch."""


_KINDS: dict[str, type | UnionType] = {
    "time_zone": str,
    "repeat": Repeat,
    "text": str,
    "data": bytes | bytearray | memoryview,
    "content_type": str,
    "retry": Retry,
    "max_rings": int,
    "priority": int,
    "delivery": str,
    "target": str,
    "receiver": Mapping,
    "traceparent": str,
}


class Set:
    """A set of a batch: `Set("order-4711", delay="30m", payload={"order": 4711})`."""

    def __init__(self, business_id: str, **fields: Unpack[SetFields]) -> None:
        unknown = fields.keys() - SetFields.__annotations__.keys()
        if unknown:
            raise TypeError(f"a set has no field {sorted(unknown)[0]!r}")
        for name, kinds in _KINDS.items():
            if name in fields and not isinstance(fields[name], kinds):  # type: ignore[literal-required]
                kind = getattr(kinds, "__name__", str(kinds))
                raise invalid(name, f"{name} must be {kind}, not {type(fields[name]).__name__}")  # type: ignore[literal-required]
        self.business_id = business_id
        self.fields = fields

    def repeatable(self) -> bool:
        """Reports whether a second effect of the set does no harm. Another delay would move the alarm."""
        return "delay" not in self.fields or self.fields.get("only_if") == "absent"

    def headers(self) -> dict[str, str]:
        """Returns the headers of a single set."""
        headers = only_if_headers(self.fields.get("only_if"), "absent", "earlier", "later")
        if traceparent := self.fields.get("traceparent"):
            if not (traceparent.isascii() and traceparent.isprintable()):
                raise invalid("traceparent", "traceparent has a character that no header has")
            headers["Traceparent"] = traceparent
        return headers

    def body(self) -> dict[str, Any]:
        """Returns the set as JSON, without its business id."""
        f = self.fields
        if sum(name in f for name in ("payload", "text", "data")) > 1:
            raise invalid("payload", "a set has one of payload, text and data")
        only_if = f.get("only_if")
        body = _given(
            ring_at=_ring_at(f.get("ring_at"), f.get("time_zone")),
            time_zone=f.get("time_zone"),
            delay=_duration("delay", f.get("delay")),
            repeat=f["repeat"].body() if f.get("repeat") else None,
            latest_ring_at=_instant("latest_ring_at", f.get("latest_ring_at")),
            content_type=f.get("content_type"),
            retry=f["retry"].body() if f.get("retry") else None,
            ack_timeout=_duration("ack_timeout", f.get("ack_timeout")),
            max_rings=f.get("max_rings"),
            priority=f.get("priority"),
            delivery=f.get("delivery"),
            target=f.get("target"),
            text=f.get("text"),
            receiver=dict(f["receiver"]) if f.get("receiver") else None,
            **{"if": only_if if isinstance(only_if, str) else None},
        )
        if "payload" in f:
            body["payload"] = f["payload"]
        if "data" in f:
            body["base64"] = base64.b64encode(f["data"]).decode()
        return body


@dataclass(frozen=True, slots=True)
class Cancel:
    """A cancel of a batch."""

    business_id: str


def only_if_headers(only_if: OnlyIf | None, *texts: str) -> dict[str, str]:
    """Returns the header of a condition on a generation. Other conditions must be one of the texts."""
    if only_if is None or (isinstance(only_if, str) and only_if in texts):
        return {}
    if not isinstance(only_if, int) or isinstance(only_if, bool):
        raise invalid("only_if", f"only_if must be {', '.join((*texts, 'a generation'))}, not {only_if!r}")
    return {"If-Match": f'"{only_if}"'}


def _given(**members: Any) -> dict[str, Any]:
    """Returns the members that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def _ring_at(value: Instant | None, time_zone: str | None) -> int | str | None:
    if time_zone is not None and isinstance(value, datetime) and value.tzinfo is None:
        return value.isoformat()  # the local time
    return _instant("ring_at", value)


def _duration(field: str, value: Duration | None) -> int | str | None:
    return None if value is None else write_duration(field, value)


def _instant(field: str, value: Instant | None) -> int | str | None:
    return None if value is None else write_instant(field, value)
