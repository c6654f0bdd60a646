"""Server-sent events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

EVENT_BYTES = 16 << 20
"""Size of the largest event that is read."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event with data or an id."""

    type: str
    id: str
    """Id of this event, or of the last one before it that has an id; empty: none has one."""
    data: str | None
    """None: the event has only an id."""


class EventReader:
    """Reads events from a stream whose bytes come in parts. An event without its blank line is not complete."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._last_id = ""
        self._begin()

    def feed(self, part: bytes) -> Iterator[Event]:
        """Returns the events that the next bytes complete. A ValueError says that an event is too large."""
        head, line_break, tail = part.rpartition(b"\n")
        if line_break:
            lines = (bytes(self._rest) + head).split(b"\n")
            self._rest = bytearray(tail)
            for line in lines:
                event = self._line(line.removesuffix(b"\r").decode(errors="replace"))
                if event is not None:
                    yield event
        else:
            self._rest += tail
        if len(self._rest) + self._size > EVENT_BYTES:
            raise ValueError(f"an event has more than {EVENT_BYTES} bytes")

    def _begin(self) -> None:
        self._type, self._id, self._size = "", self._last_id, 0
        self._data: list[str] = []

    def _line(self, line: str) -> Event | None:
        """Returns the event that a blank line ends."""
        if not line:
            event = None
            if self._data or self._id != self._last_id:
                event = Event(self._type, self._id, "\n".join(self._data) if self._data else None)
            self._last_id = self._id
            self._begin()
            return event
        name, _, value = line.partition(":")  # a comment has an empty name
        value = value.removeprefix(" ")
        if name == "event":
            self._type = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "data":
            self._data.append(value)
            self._size += len(value) + 1  # with its line break
        return None
