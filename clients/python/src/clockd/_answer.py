"""Answers to rings of alarms with ack_timeout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ._values import Duration, write_duration


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a ring. Make it with ack, release, bury or touch."""

    kind: Literal["ack", "release", "bury", "touch", ""]
    delay: Duration | None = None
    reason: str = ""
    by: str = ""

    def body(self, by: str) -> dict[str, Any]:
        """Returns the answer as JSON, by default of this program or person."""
        body: dict[str, Any] = {}
        if self.delay is not None:
            body["delay"] = write_duration("delay", self.delay)
        if self.reason:
            body["reason"] = self.reason
        if self.by or by:
            body["by"] = self.by or by
        return body


NO_ANSWER = Answer("")
"""A handler that returns it does not answer: the alarm rings again after its ack_timeout."""


def ack(*, by: str = "") -> Answer:
    """The work is done. `by` is the name of the answering program or person; default: the client's name."""
    return Answer("ack", by=by)


def release(*, delay: Duration | None = None, reason: str = "", by: str = "") -> Answer:
    """Ring again after the delay; default: at once. The reason, up to 500 bytes, is for reports."""
    return Answer("release", delay, reason, by)


def bury(*, reason: str = "", by: str = "") -> Answer:
    """Give up: a person looks at the alarm. The reason, up to 500 bytes, is for reports."""
    return Answer("bury", None, reason, by)


def touch(*, delay: Duration | None = None, by: str = "") -> Answer:
    """Wait longer for the answer: the delay counts from now. Default: the alarm's ack_timeout."""
    return Answer("touch", delay, "", by)
