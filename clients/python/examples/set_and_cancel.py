"""Sets an alarm, and cancels it."""

from datetime import UTC, datetime, timedelta

import clockd

with clockd.Client() as client:
    alarm = client.set("shop", "order-4711", ring_at=datetime.now(UTC) + timedelta(minutes=30), payload={"order": 4711})
    print("rings at", alarm.ring_at)

    try:
        print(client.cancel("shop", "order-4711").state)
    except clockd.ClockdError as failed:
        if failed.code != "already_rung":
            raise
        print("too late: it has rung at", failed.alarm.rung_at if failed.alarm else "an unknown time")
