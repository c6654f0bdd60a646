"""What the service returns: alarms, rings, and results of batches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from ._error import ClockdError
from ._values import MALFORMED, PayloadKind, read_duration, read_instant, read_json, read_payload

State: TypeAlias = Literal["scheduled", "ringing", "rung", "expired", "dead", "cancelled", "paused"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Occurrence:
    """An occurrence of a repeating alarm."""

    number: int
    """1 for the first occurrence of a generation; 0 for one of a backfill."""
    at: datetime
    """Its time, without jitter."""
    previous_at: datetime | None
    """Time of the occurrence before it, whether it rang or not."""
    next_at: datetime | None
    """Time of the occurrence after it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """A try to ring that was not confirmed, or a ring that was released, buried or not answered."""

    generation: int
    ring_no: int
    claim_id: str
    """Transaction of the service that made the try."""
    time: datetime
    outcome: str
    """Such as returned, nacked, in_doubt, released, buried or unacknowledged."""
    error: str | None
    by: str | None
    """Who released or buried the ring."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocker:
    """A reason why due alarms do not ring now."""

    code: str
    """The OpenAPI document of the service explains the codes."""
    target: str | None
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarm:
    """An alarm. `raw` has further members, as the HTTP API names them."""

    application: str
    business_id: str
    state: State
    generation: int
    """Version: 1 at creation, 1 more with each set that changes the alarm."""
    ring_at: datetime | None
    """Time to ring; of a repeating alarm, of its current occurrence."""
    latest_ring_at: datetime | None
    """Last time to ring; None: however late."""
    next_try_time: datetime | None
    """Time of the next ring or try."""
    payload_kind: PayloadKind | None
    payload: Any
    """A value of JSON, a str or bytes, as payload_kind says."""
    content_type: str | None
    ack_timeout: timedelta | None
    """Time for an answer to a ring; None: rings need no answer."""
    retry_times: int
    """Failed tries."""
    ring_no: int
    """Confirmed rings of this generation."""
    in_doubt: bool
    """Whether a ring was handed over, and its outcome is unknown."""
    last_error: str | None
    rung_at: datetime | None
    answer: str | None
    """Last accepted answer of this generation: ack, release or bury."""
    answered_by: str | None
    occurrence: Occurrence | None
    """Current occurrence; None without a rule."""
    created_at: datetime | None
    updated_at: datetime | None
    finished_at: datetime | None
    attempts: tuple[Attempt, ...]
    """Failed tries and refused rings, newest first; only `get` returns them."""
    blockers: tuple[Blocker, ...]
    """Reasons why the alarm does not ring although it is due; only reads return them."""
    raw: dict[str, Any]
    """The alarm as the service wrote it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ring:
    """One ring of an alarm."""

    message_id: str
    """The same for all copies of one ring; no other ring has it."""
    application: str
    business_id: str
    generation: int
    """Version of the alarm."""
    ring_no: int
    """Number of the ring in its generation, from 1."""
    retry_times: int
    """Failed tries of the alarm."""
    ring_at: datetime | None
    rung_at: datetime | None
    """When the service began this try."""
    claim_id: str
    ack_timeout: timedelta | None
    """Time for the answer; None: the ring needs no answer."""
    content_type: str
    traceparent: str
    """W3C trace context of the set, "" if it had none."""
    payload_kind: PayloadKind | None
    payload: Any
    """A value of JSON, a str or bytes, as payload_kind says."""
    occurrence: Occurrence | None
    """Occurrence that rings; None: the alarm rings once, or a person triggered the ring."""
    raw: dict[str, Any]
    """The ring as the service wrote it."""

    @classmethod
    def from_json(cls, text: str | bytes) -> Ring:
        """Reads a ring of the stream, or the body of a webhook with body=envelope. The error is a ValueError."""
        try:
            return read_ring(read_json(text))
        except MALFORMED as error:
            raise ValueError(f"ring: {error}") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """The result of one change of a batch."""

    business_id: str
    status: int
    """Status that the single call would have had."""
    generation: int
    """Generation of the alarm afterwards; 0 after a refusal without an alarm."""
    state: State | None
    """State of the alarm afterwards."""
    error: ClockdError | None
    """The failure of the change."""


def read_alarm(value: Any) -> Alarm:
    """Reads an alarm of the service. It ignores members that it does not know. The error is a ValueError."""
    m = _members(value, "business_id", "state")
    kind, payload = read_payload(m)
    return Alarm(
        application=m.get("application", ""),
        business_id=m["business_id"],
        state=m["state"],
        generation=m.get("generation", 0),
        ring_at=read_instant(m.get("ring_at")),
        latest_ring_at=read_instant(m.get("latest_ring_at")),
        next_try_time=read_instant(m.get("next_try_time")),
        payload_kind=kind,
        payload=payload,
        content_type=m.get("content_type"),
        ack_timeout=read_duration(m.get("ack_timeout")),
        retry_times=m.get("retry_times", 0),
        ring_no=m.get("ring_no", 0),
        in_doubt=m.get("in_doubt", False),
        last_error=m.get("last_error"),
        rung_at=read_instant(m.get("rung_at")),
        answer=m.get("answer"),
        answered_by=m.get("answered_by"),
        occurrence=_read_occurrence(m.get("occurrence")),
        created_at=read_instant(m.get("created_at")),
        updated_at=read_instant(m.get("updated_at")),
        finished_at=read_instant(m.get("finished_at")),
        attempts=tuple(_read_attempt(a) for a in m.get("attempts") or ()),
        blockers=tuple(_read_blocker(b) for b in m.get("blockers") or ()),
        raw=m,
    )


def read_ring(value: Any) -> Ring:
    """Reads a ring of the service. It ignores members that it does not know. The error is a ValueError."""
    m = _members(value, "message_id", "business_id")
    kind, payload = read_payload(m)
    return Ring(
        message_id=m["message_id"],
        application=m.get("application", ""),
        business_id=m["business_id"],
        generation=m.get("generation", 0),
        ring_no=m.get("ring_no", 0),
        retry_times=m.get("retry_times", 0),
        ring_at=read_instant(m.get("ring_at")),
        rung_at=read_instant(m.get("rung_at")),
        claim_id=m.get("claim_id", ""),
        ack_timeout=read_duration(m.get("ack_timeout")),
        content_type=m.get("content_type") or "",
        traceparent=m.get("traceparent") or "",
        payload_kind=kind,
        payload=payload,
        occurrence=_read_occurrence(m.get("occurrence")),
        raw=m,
    )


def read_result(value: Any) -> Result:
    """Reads the result of one change. The error is a ValueError."""
    m = _members(value)
    status, code = int(m["status"]), m.get("code") or ""
    error = None
    if status >= 300:
        error = ClockdError(
            m.get("detail") or "",
            status=status,
            code=code,
            field=m.get("field") or "",
            unconfirmed=may_have_changed(status, code),
        )
    return Result(
        business_id=m.get("business_id", ""),
        status=status,
        generation=m.get("generation") or 0,
        state=m.get("state"),
        error=error,
    )


def may_have_changed(status: int, code: str) -> bool:
    """Reports whether the service may have made a change. A proxy sends 502 and 504 when it does not know."""
    return status >= 500 and code not in ("unavailable", "overloaded", "key_overloaded")


def _members(value: Any, *texts: str) -> dict[str, Any]:
    """Returns the members of an object that has texts of these names."""
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    for name in texts:
        if not isinstance(value.get(name), str) or not value[name]:
            raise ValueError(f"it has no {name}")
    return value


def _read_occurrence(value: Any) -> Occurrence | None:
    if value is None:
        return None
    at = read_instant(value.get("at"))
    if at is None:
        raise ValueError("an occurrence needs a time")
    return Occurrence(
        number=value.get("number", 0),
        at=at,
        previous_at=read_instant(value.get("previous_at")),
        next_at=read_instant(value.get("next_at")),
    )


def _read_attempt(m: dict[str, Any]) -> Attempt:
    time = read_instant(m.get("time"))
    if time is None:
        raise ValueError("an attempt needs a time")
    return Attempt(
        generation=m.get("generation", 0),
        ring_no=m.get("ring_no", 0),
        claim_id=m.get("claim_id", ""),
        time=time,
        outcome=m.get("outcome", ""),
        error=m.get("error"),
        by=m.get("by"),
    )


def _read_blocker(m: dict[str, Any]) -> Blocker:
    return Blocker(code=m.get("code", ""), target=m.get("target"), detail=m.get("detail", ""))
