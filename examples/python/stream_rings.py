"""Receives an application's rings from clockd's HTTP stream: python3 stream_rings.py [APPLICATION]"""

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
headers = {"Authorization": f"Bearer {token}"} if token else {}
handled = set()  # in production: a table, written in the transaction of the work
last_id = None  # of the last event; clockd goes on after it


def handle(ring):
    if ring["message_id"] not in handled:  # a copy of a ring has the same message id
        print(ring["business_id"], payload_of(ring), flush=True)  # the work
        handled.add(ring["message_id"])
    if "ack_timeout" in ring:  # a copy is answered too, because the first answer may be lost
        ack = Request(f"{rings_url}/{ring['message_id']}/ack", method="POST", headers=headers)
        try:
            urlopen(ack, timeout=10).close()
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


def consume():
    global last_id
    resume = {"Last-Event-ID": last_id} if last_id else {}
    with urlopen(Request(rings_url, headers=headers | resume), timeout=60) as stream:  # a comment comes every 15 s
        event = {}
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if line != b"\n":
                event[name] = value
                continue
            if "data" in event:  # the first event has none
                handle(json.loads(event["data"]))
            last_id = event.get("id", last_id)
            event = {}


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: sys.exit())
while True:
    try:
        consume()
        print("connection failed: the stream ended", file=sys.stderr)
    except (OSError, http.client.HTTPException) as error:  # an HTTPError is an OSError
        _, detail = problem(error)
        if isinstance(error, HTTPError) and error.code in (401, 403):
            sys.exit(detail)
        print(f"connection failed: {detail}", file=sys.stderr)
    time.sleep(1)
