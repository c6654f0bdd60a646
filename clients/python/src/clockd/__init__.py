"""Client of clockd, the alarm clock for services.

Client is for programs with threads, AsyncClient for asyncio. A call that fails raises a ClockdError.
"""

from ._alarm import Alarm, Attempt, Blocker, Occurrence, Result, Ring
from ._answer import NO_ANSWER, Answer, ack, bury, release, touch
from ._async_client import AsyncClient
from ._client import Client, Consumer
from ._consumer import AsyncConsumer, Fault
from ._error import ClockdError
from ._set import Cancel, OnlyIf, Repeat, Retry, Set, SetFields
from ._values import Duration, Instant
from ._webhook import Verifier, WebhookError

__all__ = [
    "NO_ANSWER",
    "Alarm",
    "Answer",
    "AsyncClient",
    "AsyncConsumer",
    "Attempt",
    "Blocker",
    "Cancel",
    "Client",
    "ClockdError",
    "Consumer",
    "Duration",
    "Fault",
    "Instant",
    "Occurrence",
    "OnlyIf",
    "Repeat",
    "Result",
    "Retry",
    "Ring",
    "Set",
    "SetFields",
    "Verifier",
    "WebhookError",
    "ack",
    "bury",
    "release",
    "touch",
]
