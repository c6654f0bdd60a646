"""The failure of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._alarm import Alarm


class ClockdError(Exception):
    """The failure of a call. A failure without a response has its cause in `__cause__`."""

    status: int
    """Status of the response; 0 if there was none."""
    code: str
    """Stable name of the failure, such as `already_rung`; empty if the response has none."""
    field: str
    """Wrong part of the input; empty if no part is wrong."""
    detail: str
    """Text for people."""
    retry_after: float
    """Seconds that the service asks for before a repeat; 0: none."""
    alarm: Alarm | None
    """Alarm that caused the refusal."""
    unconfirmed: bool
    """Whether this try or an earlier try of the call may have changed something."""
    again: bool
    """Whether the same call may succeed later."""

    def __init__(
        self,
        detail: str = "",
        *,
        status: int = 0,
        code: str = "",
        field: str = "",
        retry_after: float = 0,
        alarm: Alarm | None = None,
        unconfirmed: bool = False,
        again: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.field, self.detail = status, code, field, detail
        self.retry_after, self.alarm = retry_after, alarm
        self.unconfirmed, self.again = unconfirmed, again

    def __str__(self) -> str:
        """Returns the detail, and the code with the field."""
        more = [self.code] if self.code else []
        if self.field:
            more.append(f"field {self.field}")
        if self.retry_after:
            more.append(f"repeat after {self.retry_after:g} s")
        text = self.detail or f"the server returned status {self.status}"
        return f"{text} ({', '.join(more)})" if more else text


def invalid(field: str, detail: str) -> ClockdError:
    """Returns the error for input that the client itself refuses."""
    return ClockdError(detail, code="invalid_value", field=field)
