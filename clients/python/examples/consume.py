"""Receives the rings of the application shop from the stream, until Ctrl-C or SIGTERM."""

import signal

import clockd


def cancel_order(ring: clockd.Ring) -> clockd.Answer | None:
    print(ring.business_id, ring.payload, flush=True)  # the work
    return None  # done; or clockd.release(delay="1m", reason="no stock"), or clockd.bury(reason="no such order")


with clockd.Client(name="worker-7") as client:
    consumer = client.consumer("shop", cancel_order, concurrency=4)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: consumer.stop())
    consumer.run()
