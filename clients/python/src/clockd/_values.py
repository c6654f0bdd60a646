"""Times, durations and payloads in the service's JSON."""

from __future__ import annotations

import base64
import binascii
import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from ._error import invalid

Duration: TypeAlias = timedelta | str
"""A timedelta, rounded up to milliseconds, or a text like "1h30m" or "7d"."""

Instant: TypeAlias = datetime | str
"""A datetime with a time zone, rounded up to milliseconds, or a text as of RFC 3339."""

PayloadKind: TypeAlias = Literal["json", "text", "bytes"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_UNITS = {
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
    "µs": timedelta(microseconds=1),
}
_PART = re.compile(r"(\d+)(?:\.(\d+))?(h|ms|m|s|us|µs)")


def write_duration(field: str, value: Duration) -> int | str:
    """Returns milliseconds, rounded up so that no alarm rings early, or the text."""
    if isinstance(value, timedelta):
        return -(-value // _MILLISECOND)
    if isinstance(value, str):
        return value
    raise invalid(field, f"{field} must be a timedelta or a text like '30m', not {type(value).__name__}")


def write_instant(field: str, value: Instant) -> int | str:
    """Returns milliseconds since 1970, rounded up so that no alarm rings early, or the text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, datetime):
        raise invalid(field, f"{field} must be a datetime or a text, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise invalid(field, f"{field} has no time zone: give it one, such as datetime.UTC")
    return -(-(value - _EPOCH) // _MILLISECOND)


def read_duration(value: object) -> timedelta | None:
    """Reads a text like "1h30m" or null. Other values are a ValueError."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no duration")
    total, at = timedelta(), 0
    while at < len(value):
        part = _PART.match(value, at)
        if part is None:
            raise ValueError(f"{value!r} is no duration")
        whole, fraction, unit = part.groups(default="")
        total += int(whole) * _UNITS[unit]
        if fraction:
            total += int(fraction) * _UNITS[unit] / 10 ** len(fraction)
        at = part.end()
    return total


def read_instant(value: object) -> datetime | None:
    """Reads a text of RFC 3339 or null. Other values are a ValueError."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no time")
    at = datetime.fromisoformat(value)
    if at.utcoffset() is None:
        raise ValueError(f"{value!r} has no time zone")
    return at.astimezone(UTC)


def read_json(text: str | bytes) -> Any:
    """Reads a value of JSON. A number with more digits than int() takes is a Decimal. The error is one of MALFORMED."""
    return json.loads(text, parse_int=_read_int)


def _read_int(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


MALFORMED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""The errors of readers for JSON that is not clockd's."""


def read_payload(members: dict[str, Any]) -> tuple[PayloadKind | None, Any]:
    """Returns the kind and the value of the payload that an alarm or a ring has."""
    if "payload" in members:
        return "json", members["payload"]
    if "text" in members:
        return "text", members["text"]
    if "base64" in members:
        try:
            return "bytes", base64.b64decode(members["base64"], validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"base64: {error}") from None
    return None, None
