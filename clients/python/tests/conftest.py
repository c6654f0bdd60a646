"""The tests run with a clockd that client/internal/faulty/run has started."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import clockd

SERVER = os.environ.get("CLOCKD_TEST_SERVER", "")


def wish(name: str, body: Any) -> Any:
    """Asks the program that runs the tests for something."""
    response = httpx.post(f"{os.environ['CLOCKD_TEST_CONTROL']}/{name}", json=body, timeout=60)
    assert response.status_code == 200, response.text
    return response.json()


def faulty(*faults: Any) -> str:
    """Returns the URL of a server whose first requests meet these faults."""
    url: str = wish("faulty", list(faults))["url"]
    return url


def asked(url: str) -> list[str]:
    """Returns the requests of a faulty server."""
    requests: list[str] = wish("asked", {"url": url})
    return requests


def busy(code: str = "overloaded", retry_after: str = "0") -> dict[str, Any]:
    """Returns the response of a service without room."""
    return {"status": 503, "headers": {"Retry-After": retry_after}, "body": f'{{"code":"{code}","detail":"busy"}}'}


_number = itertools.count(1)


@pytest.fixture
def app() -> str:
    """An application that no other test has."""
    return f"python-{uuid.uuid4().hex[:8]}-{next(_number)}"


class AsyncInThread:
    """Lets tests call an AsyncClient as if it were a Client. Its loop runs in a thread."""

    def __init__(self, server: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._client = self._await(self._make(server, options))

    @staticmethod
    async def _make(server: str, options: dict[str, Any]) -> clockd.AsyncClient:
        return clockd.AsyncClient(server, **options)

    def _await(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def alarms(self, *args: Any, **kwargs: Any) -> list[clockd.Alarm]:
        async def collect() -> list[clockd.Alarm]:
            return [alarm async for alarm in self._client.alarms(*args, **kwargs)]

        found: list[clockd.Alarm] = self._await(collect())
        return found

    def consumer(self, application: str, handle: Callable[[clockd.Ring], Any], **options: Any) -> AsyncConsumerInThread:
        async def awaited(ring: clockd.Ring) -> Any:
            def call() -> tuple[Any, BaseException | None]:
                try:
                    return handle(ring), None
                except BaseException as error:  # a thread cannot hand over each of them
                    return None, error

            answer, error = await asyncio.to_thread(call)
            if error is not None:
                raise error
            return answer

        return AsyncConsumerInThread(self._loop, self._client.consumer(application, awaited, **options))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        return lambda *args, **kwargs: self._await(method(*args, **kwargs))

    def close(self) -> None:
        self._await(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class AsyncConsumerInThread:
    """Lets tests call an AsyncConsumer as if it were a Consumer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, consumer: clockd.AsyncConsumer) -> None:
        self._loop, self._consumer = loop, consumer

    def run(self) -> None:
        asyncio.run_coroutine_threadsafe(self._consumer.run(), self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._consumer.stop)


@pytest.fixture(params=["threads", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients, of each kind in turn."""
    with contextlib.ExitStack() as stack:

        def make(server: str = SERVER, **options: Any) -> Any:
            kind = clockd.Client if request.param == "threads" else AsyncInThread
            client = kind(server, **options)
            stack.callback(client.close)
            return client

        yield make
