// Receives an application's rings from clockd's HTTP stream: node stream-rings.mjs [APPLICATION]
import { setTimeout as sleep } from "node:timers/promises";

const application = process.argv[2] ?? "shop";
const server = (process.env.CLOCKD_SERVER ?? "http://127.0.0.1:8080").replace(/\/$/, "");
const ringsURL = `${server}/v1/applications/${application}/rings`;
const token = process.env.CLOCKD_TOKEN;
const authorization = token ? { Authorization: `Bearer ${token}` } : {};
const handled = new Set(); // in production: a table, written in the transaction of the work
let lastID; // of the last event; clockd goes on after it

async function handle(ring) {
  if (!handled.has(ring.message_id)) { // a copy of a ring has the same message id
    const payload = ring.text ?? ring.base64 ?? ("payload" in ring ? JSON.stringify(ring.payload) : "");
    console.log(ring.business_id, payload); // the work
    handled.add(ring.message_id);
  }
  if (ring.ack_timeout) await acknowledge(ring); // a copy is answered too, because the first answer may be lost
}

async function acknowledge(ring) {
  try {
    const request = { method: "POST", headers: authorization, signal: AbortSignal.timeout(10_000) };
    const response = await fetch(`${ringsURL}/${ring.message_id}/ack`, request);
    const answer = await response.json();
    if (response.ok || answer.code === "stale_ring") return; // stale_ring: the alarm has an answer, or has rung again
    console.error(`${ring.business_id} rings again: ${response.status} ${answer.code}: ${answer.detail}`);
  } catch (error) {
    console.error(`${ring.business_id} rings again: ${error.cause ?? error}`);
  }
}

async function consume() {
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new Error("silent for 60 s")), 60_000); // a comment comes every 15 s
  try {
    const headers = lastID ? { ...authorization, "Last-Event-ID": lastID } : authorization;
    const response = await fetch(ringsURL, { headers, signal: silence.signal });
    if (!response.ok) {
      const problem = await response.json();
      const detail = `${response.status} ${problem.code}: ${problem.detail}`;
      if (response.status === 401 || response.status === 403) {
        console.error(detail);
        process.exit(1);
      }
      throw new Error(detail);
    }
    let unread = "";
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      timer.refresh();
      const events = (unread + text).split("\n\n");
      unread = events.pop();
      for (const event of events) {
        const data = event.match(/^data: (.*)$/m);
        if (data) await handle(JSON.parse(data[1])); // the first event has no data
        lastID = event.match(/^id: (.*)$/m)?.[1] ?? lastID;
      }
    }
    throw new Error("the stream ended");
  } finally {
    clearTimeout(timer);
  }
}

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit());
for (;;) {
  await consume().catch((error) => console.error("connection failed:", String(error.cause ?? error)));
  await sleep(1000);
}
