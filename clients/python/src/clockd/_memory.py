"""The memory of a consumer: which rings it has handled."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal, TypeAlias

from ._answer import Answer

Known: TypeAlias = Literal["new", "busy", "done"]


class Memory:
    """Remembers the last rings by message id, each with the answer that the service has not accepted yet.

    Copies of a ring come soon after it: after a lost connection, or a node's end.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._busy: set[str] = set()
        self._done: OrderedDict[str, Answer | None] = OrderedDict()

    def begin(self, message_id: str) -> tuple[Known, Answer | None]:
        """Returns what is known of a ring. After "new", the ring is "busy" until `end`."""
        if message_id in self._done:
            return "done", self._done[message_id]
        if message_id in self._busy:
            return "busy", None
        self._busy.add(message_id)
        return "new", None

    def end(self, message_id: str, unsent: Answer | None) -> None:
        """Makes the ring "done". It may be called again, to replace the answer."""
        self._busy.discard(message_id)
        self._done[message_id] = unsent
        if len(self._done) > self._size:
            self._done.popitem(last=False)
