"""Reserves rings of an application whose target is pull: python3 pull_worker.py [APPLICATION]"""

import http.client
import json
import os
import signal
import sys
import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen

application = sys.argv[1] if len(sys.argv) > 1 else "shop"
server = os.environ.get("CLOCKD_SERVER", "http://127.0.0.1:8080").rstrip("/")
rings_url = f"{server}/v1/applications/{application}/rings"
token = os.environ.get("CLOCKD_TOKEN")
headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
handled = set()  # in production: a table, written in the transaction of the work


def post(url, timeout, body=None):
    data = json.dumps(body).encode() if body else None
    with urlopen(Request(url, data=data, method="POST", headers=headers), timeout=timeout) as response:
        return json.load(response)


def handle(ring):
    if ring["message_id"] not in handled:  # a copy of a ring has the same message id
        print(ring["business_id"], payload_of(ring), flush=True)  # the work
        handled.add(ring["message_id"])
    try:
        post(f"{rings_url}/{ring['message_id']}/ack", 10)
    except (OSError, http.client.HTTPException) as error:
        code, detail = problem(error)
        if code != "stale_ring":  # stale_ring: the alarm has an answer, or has rung again
            print(f"{ring['business_id']} rings again: {detail}", file=sys.stderr)


def payload_of(ring):
    if "payload" in ring:
        return json.dumps(ring["payload"], ensure_ascii=False, separators=(",", ":"))
    return ring.get("text", ring.get("base64", ""))


def problem(error):
    """The code and the detail of a response that is an error."""
    try:
        body = json.load(error)
        return body["code"], f"{error.code} {body['code']}: {body.get('detail')}"
    except (AttributeError, ValueError, KeyError):
        return None, repr(error)


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: sys.exit())
while True:
    try:
        for ring in post(f"{rings_url}/reserve", 60, {"count": 10, "wait": "20s"})["rings"]:
            handle(ring)
    except (OSError, http.client.HTTPException) as error:  # an HTTPError is an OSError
        _, detail = problem(error)
        if isinstance(error, HTTPError) and error.code in (401, 403):
            sys.exit(detail)
        print(f"connection failed: {detail}", file=sys.stderr)
        time.sleep(1)
