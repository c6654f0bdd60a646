"""Signatures of webhooks, as Standard Webhooks says (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol, TypeAlias

WebhookFault: TypeAlias = Literal["headers", "time", "signature"]

_TEXTS: dict[WebhookFault, str] = {
    "headers": "the request has not the headers of a webhook: webhook-id, webhook-timestamp and webhook-signature",
    "time": "the webhook is too old or too new",
    "signature": "no signature of the webhook fits",
}


class Headers(Protocol):
    """The headers of a request, such as a dict or the headers of a web framework."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Returns names, in any case of their letters, and values."""


class WebhookError(Exception):
    """A request is no valid webhook. Respond with 401. The text does not tell the secret or the right signature."""

    fault: WebhookFault

    def __init__(self, fault: WebhookFault) -> None:
        super().__init__(_TEXTS[fault])
        self.fault = fault


class Verifier:
    """Checks that requests are webhooks that were signed with any of the secrets.

    Give it the old and the new secret while a secret is changed. A secret is as `clockd application` prints it.
    """

    def __init__(self, *secrets: str, tolerance: timedelta = timedelta(minutes=5)) -> None:
        """Takes webhooks whose time differs from now by at most the tolerance. A wrong secret is a ValueError."""
        if not secrets:
            raise ValueError("a verifier needs at least one secret")
        if not isinstance(tolerance, timedelta):
            raise ValueError("the tolerance must be a timedelta")
        self._keys = [_key(secret) for secret in secrets]
        self._tolerance = tolerance

    def verify(self, headers: Headers, body: bytes, *, now: datetime | None = None) -> str:
        """Returns the message id, or raises a WebhookError if the request with these headers and body is no webhook.

        `body` must be the bytes as they came. The signature covers webhook-id, webhook-timestamp and the body, not the
        other headers. A valid request may come again with the same message id: handle each id once.
        """
        message_id, timestamp, signatures = _signed_headers(headers)
        # an id of more parts may be another id and its time, of which the rest is in the body
        is_id = message_id and message_id.count(".") <= 2
        if not is_id or not signatures or not re.fullmatch(r"-?[0-9]{1,19}", timestamp):
            raise WebhookError("headers")
        age = (now or datetime.now(UTC)).timestamp() - int(timestamp)
        if abs(age) > self._tolerance.total_seconds():
            raise WebhookError("time")
        signed = f"{message_id}.{timestamp}.".encode(errors="backslashreplace") + body
        for key in self._keys:
            if _has_signature(signatures, hmac.new(key, signed, hashlib.sha256).digest()):
                return message_id
        raise WebhookError("signature")


def _signed_headers(headers: Headers) -> list[str]:
    """Returns the three headers of a webhook. One that occurs twice is none: the caller might read the other one."""
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    given: dict[str, list[str]] = {name: [] for name in names}
    for name, value in headers.items():
        if name.lower() in given:
            given[name.lower()].append(value)
    return [values[0] if len(values) == 1 else "" for values in given.values()]


def _key(secret: str) -> bytes:
    """Returns the key of a secret. The error does not repeat the secret."""
    if not isinstance(secret, str):
        raise ValueError("a secret must be a text")
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise ValueError("a secret must be whsec_ and 24 to 64 bytes in base64")
    return key


def _has_signature(signatures: str, want: bytes) -> bool:
    """Reports whether a signature of the kind v1 is in the list. Others may be of later kinds."""
    for signature in signatures.split(" "):
        kind, _, encoded = signature.partition(",")
        if kind != "v1":
            continue
        try:
            got = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            continue
        if hmac.compare_digest(got, want):
            return True
    return False
