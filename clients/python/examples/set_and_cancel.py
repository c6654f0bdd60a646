"""Sets an alarm, and cancels it."""

from datetime import timedelta

import clockd

with clockd.Client() as client:
    alarm = client.set("shop", "order-4711", delay=timedelta(minutes=30), payload={"order": 4711}, only_if="absent")
    print("rings at", alarm.ring_at)

    try:
        print(client.cancel("shop", "order-4711").state)
    except clockd.ClockdError as failed:
        if failed.code != "already_rung":
            raise
        print("too late: it has rung at", failed.alarm.rung_at if failed.alarm else "an unknown time")
