"""What a call sends, when it is repeated, and what its response means. This module does no I/O."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import random
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import httpx

from ._alarm import Alarm, Result, Ring, may_have_changed, read_alarm, read_result, read_ring
from ._answer import Answer
from ._error import ClockdError, invalid
from ._set import Cancel, Set, only_if_headers
from ._values import MALFORMED, Duration, Instant, read_json, write_duration, write_instant

VERSION = "0.1.0"
RESPONSE_BYTES = 16 << 20
"""Size of the largest response that is read. A page of a list has about 4 MiB."""

LONGEST_WAIT = 5.0
"""Longest wait between two tries, in seconds, if the service does not ask for more."""
_FIRST_WAIT, _LONGEST_RETRY_AFTER = 0.1, 60.0
_SERVICE_TIME, _WAY, _LONGEST_TIMEOUT = 15.0, 0.5, 86_400.0
_AGAIN = (408, 429, 502, 503, 504)


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What a client was made with."""

    server: str
    token: str = field(repr=False)
    name: str
    tries: int
    try_timeout: float
    timeout: float
    ssl_context: ssl.SSLContext | None

    def __post_init__(self) -> None:
        if not is_server_url(self.server):
            raise invalid("server", "the server's URL must be like http://127.0.0.1:8080")
        if httpx.URL(self.server).userinfo:
            raise invalid("server", "the server's URL must not have a password: use token")
        if not isinstance(self.token, str) or any(not "!" <= c <= "~" for c in self.token):
            raise invalid("token", "the access token has a character that no token has")
        if not isinstance(self.tries, int) or self.tries < 1:
            raise invalid("tries", "a call needs at least 1 try")
        for seconds in (self.try_timeout, self.timeout):
            if not isinstance(seconds, (int, float)) or not 0 < seconds <= _LONGEST_TIMEOUT:
                raise invalid("timeout", "the time for a call and for a try must be positive seconds, at most a day")

    def url(self, path: str) -> str:
        """Returns the URL of a path."""
        return self.server.rstrip("/") + path

    def transport(self) -> dict[str, Any]:
        """Returns the options of an HTTP client."""
        return {
            "headers": self._headers(),
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=64),
            "verify": self.ssl_context or _default_ssl_context(),
            "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # keeps none
        }

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"clockd-python/{VERSION}", "Accept-Encoding": "identity"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request(Generic[T]):
    """One call, which may take several tries."""

    read: Callable[[Any], T]
    """Reads the JSON of the response. Its error is one of MALFORMED."""
    method: str
    path: str
    """Escaped path and query."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    repeat: bool = False
    """Whether a second effect of the request does no harm."""
    resend: bool = False
    """With repeat false: whether the request is sent again after a try that certainly had no effect."""
    wait: float = 0
    """Seconds that the service may wait before it responds; a try lasts that much longer."""


def server_or_default(server: str | None) -> str:
    """Returns the URL of the service."""
    return server or os.environ.get("CLOCKD_SERVER") or "http://127.0.0.1:8080"


def token_or_default(token: str | None) -> str:
    """Returns the access token."""
    return os.environ.get("CLOCKD_TOKEN", "") if token is None else token


@functools.cache
def _default_ssl_context() -> ssl.SSLContext:
    """Returns httpx's context. All clients have it, because to read the authorities takes a while."""
    return httpx.create_ssl_context()


def is_server_url(server: str) -> bool:
    """Reports whether this is the URL of a service."""
    try:
        url = httpx.URL(server)
    except (httpx.InvalidURL, TypeError, ValueError):
        return False
    return url.scheme in ("http", "https") and bool(url.host) and not set("?#") & set(server)


class Tries:
    """The tries of one call."""

    def __init__(self, request: Request[Any], options: Options) -> None:
        self._request, self._options = request, options
        self._ends = time.monotonic() + options.timeout + request.wait
        self._n = 0
        self._unconfirmed = False

    def limit(self) -> float:
        """Returns the seconds for the next try."""
        left = self._ends - time.monotonic()
        return max(0.001, min(self._options.try_timeout + self._request.wait, left))

    def headers(self, limit: float) -> dict[str, str]:
        """Returns the headers of the next try. They tell how long the client waits, if that is short."""
        headers = dict(self._request.headers)
        if self._request.body is not None:
            headers["Content-Type"] = "application/json"
        if limit - _WAY < _SERVICE_TIME:
            headers["Prefer"] = f"wait={max(1, int(limit - _WAY))}"
        return headers

    def after(self, failed: ClockdError) -> float:
        """Returns the wait after a failed try, in seconds. It raises the failure if no other try may follow."""
        self._n += 1
        self._unconfirmed |= failed.unconfirmed and self._request.method != "GET"
        failed.unconfirmed = self._unconfirmed
        repeat = failed.again and (self._request.repeat or (self._request.resend and not failed.unconfirmed))
        wait = backoff(self._n, failed.retry_after)
        if self._n >= self._options.tries or not repeat or wait is None or time.monotonic() + wait >= self._ends:
            raise failed
        return wait


def timeouts(limit: float) -> httpx.Timeout:
    """Returns the timeouts of a try. The connection gets half of the time, so that its failure is told as such."""
    return httpx.Timeout(limit, connect=limit / 2)


def backoff(n: int, retry_after: float) -> float | None:
    """Returns the wait after the nth try; None: it would be too long.

    A Retry-After is extended by up to a half, any other wait is shortened by up to a half.
    """
    if retry_after > _LONGEST_RETRY_AFTER:
        return None
    if retry_after > 0:
        return retry_after * random.uniform(1, 1.5)
    return min(_FIRST_WAIT * 2.0 ** min(n - 1, 10), LONGEST_WAIT) * random.uniform(0.5, 1)


def pause_of_stream(n: int, retry_after: float) -> float:
    """Returns the wait before a stream is opened again."""
    wait = backoff(n, min(retry_after, _LONGEST_RETRY_AFTER))
    return LONGEST_WAIT if wait is None else wait


NO_RESPONSE = (httpx.HTTPError, httpx.InvalidURL, OSError)
"""The errors of a try without a whole response."""


def broken(error: Exception, server: str = "the service") -> ClockdError:
    """Returns the error for a try without a whole response."""
    unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError))
    wrong = isinstance(error, (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.InvalidURL))  # not sent
    detail = f"no response from {server}: {str(error) or type(error).__name__}"
    failed = ClockdError(detail, again=not wrong, unconfirmed=not unsent and not wrong)
    failed.__cause__ = error
    return failed


def too_slow(limit: float) -> ClockdError:
    """Returns the error for a try that took too long."""
    failed = broken(TimeoutError())
    failed.detail = f"the service did not respond within {limit:g} s"
    return failed


def unreadable(status: int, error: Exception, *, unconfirmed: bool = False) -> ClockdError:
    """Returns the error for a response with an expected status that is not clockd's."""
    failed = ClockdError(f"the server's response cannot be read: {error}", status=status, unconfirmed=unconfirmed)
    failed.__cause__ = error
    return failed


def too_large(status: int) -> ClockdError:
    """Returns the error for a response that is too large."""
    return unreadable(status, ValueError(f"it has more than {RESPONSE_BYTES} bytes"), unconfirmed=True)


def read_response(request: Request[T], status: int, headers: Mapping[str, str], body: bytes) -> T:
    """Returns what a response holds. Its error is a ClockdError."""
    if not 200 <= status < 300:
        raise refusal(status, headers, body)
    try:
        return request.read(read_json(body))
    except MALFORMED as error:
        raise unreadable(status, error, unconfirmed=request.method != "GET") from error


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> ClockdError:
    """Returns the error for a response that is not 2xx. A proxy may have sent it."""
    failed = ClockdError(
        status=status,
        retry_after=read_retry_after(headers.get("Retry-After", "")),
        again=status in _AGAIN,
        unconfirmed=may_have_changed(status, ""),
    )
    try:
        problem = read_json(body)
        code = problem["code"]
    except MALFORMED:
        return failed
    if not isinstance(code, str) or not code:
        return failed
    failed.code, failed.field, failed.detail = code, _text(problem, "field"), _text(problem, "detail")
    failed.unconfirmed = may_have_changed(status, code)
    with contextlib.suppress(*MALFORMED):  # most problems have no alarm
        failed.alarm = read_alarm(problem.get("alarm"))
    return failed


def _text(members: dict[str, Any], name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""


def read_retry_after(value: str) -> float:
    """Reads a Retry-After header in either of its forms. It returns 0 for a value that it cannot read."""
    if value.isascii() and value.isdigit():
        return int(value) if len(value) < 10 else 0
    try:
        return max(0.0, round(parsedate_to_datetime(value).timestamp() - time.time()))
    except (ValueError, TypeError, OverflowError):
        return 0


def _read_rings(value: Any) -> list[Ring]:
    return [read_ring(r) for r in value["rings"]]


def _read_members(value: Any) -> list[Any]:
    return list(value["rings"])


def _read_results(value: Any) -> list[Result]:
    return [read_result(r) for r in value["results"]]


def _read_page(value: Any) -> tuple[list[Alarm], str]:
    return [read_alarm(a) for a in value["alarms"]], value.get("next_cursor") or ""


def segment(text: str) -> str:
    """Returns an id as one segment of a path. Programs on the way resolve . and .. even as segments."""
    _check_id(text)
    if not text.strip("."):
        return text.replace(".", "%2E")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise invalid("business_id", f"an id must be Unicode: {error}") from None


def _check_id(text: str) -> None:
    if not isinstance(text, str) or not text:
        raise invalid("business_id", f"an id must be a text that is not empty, not {text!r}")


def application_path(application: str) -> str:
    """Returns the path of an application."""
    return "/v1/applications/" + segment(application)


def alarm_path(application: str, business_id: str) -> str:
    """Returns the path of an alarm."""
    return f"{application_path(application)}/alarms/{segment(business_id)}"


def set_request(application: str, s: Set) -> Request[Alarm]:
    """Returns the request of a set."""
    return Request(
        read=read_alarm,
        method="PUT",
        path=alarm_path(application, s.business_id),
        headers=s.headers(),
        body=_encode(s.body()),
        repeat=s.repeatable(),
    )


def cancel_request(application: str, business_id: str, only_if: int | None, note: str) -> Request[Alarm]:
    """Returns the request of a cancel."""
    path, headers = alarm_path(application, business_id), only_if_headers(only_if)
    if note:
        return Request(
            read=read_alarm,
            method="POST",
            path=path + "/cancel",
            headers=headers,
            body=_encode({"note": note}),
            repeat=True,
        )
    return Request(read=read_alarm, method="DELETE", path=path, headers=headers, repeat=True)


def get_request(application: str, business_id: str) -> Request[Alarm]:
    """Returns the request of a get."""
    return Request(read=read_alarm, method="GET", path=alarm_path(application, business_id), repeat=True)


def batch_request(application: str, changes: Iterable[Set | Cancel]) -> Request[list[Result]]:
    """Returns the request of a batch."""
    sets: list[dict[str, Any]] = []
    cancels: list[str] = []
    repeat = True
    for change in changes:
        if not isinstance(change, (Set, Cancel)):
            raise invalid("changes", f"a change must be a Set or a Cancel, not {type(change).__name__}")
        _check_id(change.business_id)
        if isinstance(change, Cancel):
            cancels.append(change.business_id)
            continue
        if change.headers():
            raise invalid("only_if", "a generation and traceparent are for single calls only")
        try:
            sets.append({"business_id": change.business_id, **change.body()})
        except ClockdError as wrong:
            raise invalid(wrong.field, f"{change.business_id}: {wrong.detail}") from None
        repeat = repeat and change.repeatable()
    body = _encode({"set": sets, "cancel": cancels})
    return Request(
        read=_read_results, method="POST", path=application_path(application) + "/alarms", body=body, repeat=repeat
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """Selects alarms of an application."""

    states: Sequence[str] | str
    prefix: str
    due_after: Instant | None
    due_before: Instant | None

    def request(self, application: str, limit: int, cursor: str) -> Request[tuple[list[Alarm], str]]:
        """Returns the request of a page."""
        query: dict[str, str | int] = {"limit": limit}
        if self.states:
            query["state"] = self.states if isinstance(self.states, str) else ",".join(self.states)
        if self.prefix:
            query["prefix"] = self.prefix
        if self.due_after is not None:
            query["due_after"] = write_instant("due_after", self.due_after)
        if self.due_before is not None:
            query["due_before"] = write_instant("due_before", self.due_before)
        if cursor:
            query["cursor"] = cursor
        path = f"{application_path(application)}/alarms?{urlencode(query)}"
        return Request(read=_read_page, method="GET", path=path, repeat=True)


def page_limit(left: int | None) -> int:
    """Returns the limit of a page of a list that may have so many more alarms."""
    return 1000 if left is None else min(left, 1000)


def reserve_request(application: str, count: int, wait: Duration) -> Request[list[Ring]]:
    """Returns the request of a reserve. A repeat of it would reserve further rings."""
    milliseconds = write_duration("wait", wait)
    if not isinstance(milliseconds, int):
        raise invalid("wait", "wait must be a timedelta")
    return Request(
        read=_read_rings,
        method="POST",
        path=application_path(application) + "/rings/reserve",
        resend=True,
        wait=milliseconds / 1000,
        body=_encode({"count": count, "wait": milliseconds}),
    )


def reserve_members_request(application: str, count: int, wait: Duration) -> Request[list[Any]]:
    """Returns the request of a reserve whose rings the caller reads one by one."""
    return dataclasses.replace(reserve_request(application, count, wait), read=_read_members)


def stream_path(application: str) -> str:
    """Returns the path of the stream of an application's rings."""
    return application_path(application) + "/rings"


def answer_request(application: str, message_id: str, answer: Answer, by: str) -> Request[Alarm]:
    """Returns the request of an answer."""
    if not answer.kind:
        raise invalid("kind", "an answer is ack, release, bury or touch")
    path = f"{application_path(application)}/rings/{segment(message_id)}/{answer.kind}"
    return Request(read=read_alarm, method="POST", path=path, body=_encode(answer.body(by)), repeat=True)


def accepted_before(failed: ClockdError, message_id: str, answer: Answer, by: str) -> Alarm | None:
    """Returns the alarm if an earlier try of the answer was accepted, and its response was lost."""
    alarm, name = failed.alarm, answer.by or by
    if failed.code != "stale_ring" or not failed.unconfirmed or alarm is None or alarm.answer != answer.kind:
        return None
    if (name and name != alarm.answered_by) or not message_id.endswith(f".{alarm.generation}.{alarm.ring_no}"):
        return None
    return alarm


def _encode(body: dict[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:  # a UnicodeEncodeError is a ValueError
        raise invalid("", f"the input cannot be encoded: {error}") from error
