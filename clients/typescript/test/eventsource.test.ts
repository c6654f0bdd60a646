// The stream with the client of server-sent events that programs without a client of clockd use.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EventSource } from "eventsource";
import { connect, killClockd, newApplication, Queue, startClockd } from "./service.js";

test("eventsource receives rings, and again after the service was killed", async (t) => {
  const url = await startClockd();
  const app = newApplication();
  const client = connect(url);
  const rings = new Queue<MessageEvent>();
  const stream = new EventSource(`${url}/v1/applications/${app}/rings`);
  t.after(() => stream.close());
  stream.addEventListener("ring", (event) => rings.put(event));
  for (const id of ["before", "after"]) {
    await client.set(app, id, { ringAt: new Date(), payload: { of: id }, ackTimeout: "1h" });
    const event = await rings.take();
    const ring = JSON.parse(event.data);
    assert.equal(ring.business_id, id);
    assert.deepEqual(ring.payload, { of: id });
    assert.notEqual(event.lastEventId, "");
    await client.ack(app, ring.message_id);
    if (id === "before") {
      await killClockd(url);
      await startClockd(url);
    }
  }
});
