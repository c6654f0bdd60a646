"""The programs of the README, which are the files in examples/."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from conftest import SERVER, wish

import clockd

ROOT = Path(__file__).parents[1]


def test_readme_has_the_examples() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert sorted(blocks) == sorted(example.read_text() for example in (ROOT / "examples").glob("*.py"))


def start(name: str, **environment: str) -> subprocess.Popen[str]:
    program = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, text=True, env={**os.environ, "CLOCKD_SERVER": SERVER, **environment}
    )


def line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def test_set_and_cancel() -> None:
    with start("set_and_cancel") as program:
        assert re.match(r"rings at \d{4}-.*\ncancelled\n$", program.communicate()[0])


def test_repeat() -> None:
    with start("repeat") as program:
        out = program.communicate()[0].splitlines()
    assert out[:2] == ["daily scheduled", "heartbeat scheduled"]
    assert "unknown_alarm" in out[2]
    with clockd.Client(SERVER) as client:
        client.batch("reports", [clockd.Cancel("daily"), clockd.Cancel("heartbeat")])


@pytest.mark.parametrize(("name", "app"), [("consume", "shop"), ("worker", "mail")])
def test_receivers(name: str, app: str) -> None:
    if name == "worker":
        wish("target", {"application": app, "target": "pull"})
    with start(name) as program, clockd.Client(SERVER) as client:
        client.set(app, f"example-{name}", delay="0s", payload={"order": 4711}, ack_timeout="1h")
        assert line(program) == f"example-{name} {{'order': 4711}}"
        while client.get(app, f"example-{name}").state != "rung":
            pass
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == 0


def test_webhook() -> None:
    key = base64.b64decode("C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
    now, body = str(int(time.time())), '{"order":4711}'
    signature = base64.b64encode(hmac.new(key, f"1.1.1.{now}.{body}".encode(), hashlib.sha256).digest()).decode()
    with start("webhook", SECRET=f"whsec_{base64.b64encode(key).decode()}", PORT="0") as program:
        port = line(program).rpartition(" ")[2]

        def post(signed: str) -> int:
            headers = {"webhook-id": "1.1.1", "webhook-timestamp": now, "webhook-signature": signed}
            headers["x-clockd-business-id"] = "a%2Fb"
            return httpx.post(f"http://127.0.0.1:{port}", headers=headers, content=body).status_code

        assert [post(f"v1,{signature}"), post("v1,AAAA"), post(f"v1,{signature}")] == [204, 401, 204]
        program.terminate()
        assert program.stdout is not None
        assert program.stdout.read() == f"a/b {body}\n"  # once
