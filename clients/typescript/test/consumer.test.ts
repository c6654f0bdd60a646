// Consumers, with streams that are cut and a clockd that is killed.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import {
  type Alarm,
  bury,
  ClockdError,
  type ConsumeOptions,
  Fault,
  type Handler,
  release,
  type Ring,
  type SetFields,
} from "../src/index.js";
import {
  asked,
  busy,
  connect,
  faulty,
  killClockd,
  newApplication,
  Queue,
  server,
  setTarget,
  startClockd,
} from "./service.js";

/** A consumer that a test has started. It ends with the test. */
class Consuming {
  readonly rings = new Queue<Ring>();
  readonly faults = new Queue<Fault>();
  readonly #stop = new AbortController();
  readonly ended: Promise<unknown>; // the error of the consumer, or undefined

  constructor(
    t: TestContext,
    app: string,
    handle: Handler,
    options: ConsumeOptions = {},
    url = server,
    tryTimeout = 20_000,
  ) {
    const client = connect(url, { name: "worker-7", tryTimeout });
    const handled: Handler = (ring, signal) => {
      this.rings.put(ring);
      return handle(ring, signal);
    };
    const onFault = (fault: Fault) => this.faults.put(fault);
    this.ended = client
      .consume(app, handled, { onFault, signal: this.#stop.signal, ...options })
      .catch((error: unknown) => error);
    t.after(() => this.stop());
  }

  stop(): Promise<unknown> {
    this.#stop.abort();
    return this.ended;
  }
}

const done = () => {};

/** Sets new alarms that are due at once. */
async function setSoon(app: string, ids: string[], fields: SetFields = {}, url = server): Promise<void> {
  for (const id of ids) await connect(url).set(app, id, { delay: 0, onlyIf: "absent", ...fields });
}

/** Waits until the alarm has the state. */
async function awaitAlarm(app: string, id: string, state: string, url = server): Promise<Alarm> {
  for (;;) {
    const alarm = await connect(url).get(app, id);
    if (alarm.state === state) return alarm;
  }
}

test("rings arrive as they were set", async (t) => {
  const app = newApplication();
  const payloads: Record<string, SetFields> = {
    json: { payload: { order: 4711 } },
    text: { text: "a\nb" },
    bytes: { data: Uint8Array.of(0, 255) },
  };
  for (const [id, payload] of Object.entries(payloads)) await setSoon(app, [id], payload);
  const consuming = new Consuming(t, app, done);
  for (let n = 0; n < 3; n++) {
    const ring = await consuming.rings.take();
    assert.equal(ring.payloadKind, ring.businessId);
    assert.deepEqual(ring.payload, Object.values(payloads[ring.businessId]!)[0]);
    assert.deepEqual([ring.application, ring.generation, ring.ringNo, ring.ackTimeout], [app, 1, 1, null]);
  }
});

test("the handler says how rings are answered", async (t) => {
  const app = newApplication();
  const consuming = new Consuming(
    t,
    app,
    async (ring) => {
      if (ring.businessId === "fails") throw new Error("no database");
      if (ring.businessId === "buried") return bury({ reason: "broken", by: "test" });
      return ring.businessId === "released" ? release({ delay: "1h", reason: "later" }) : undefined;
    },
    { concurrency: 4 },
  );
  await setSoon(app, ["done", "buried", "released", "fails"], { ackTimeout: "1h" });
  assert.equal((await awaitAlarm(app, "done", "rung")).answeredBy, "worker-7");
  assert.equal((await awaitAlarm(app, "buried", "dead")).answeredBy, "test");
  assert.equal((await awaitAlarm(app, "released", "scheduled")).answer, "release");
  const fault = await consuming.faults.take();
  assert.deepEqual([fault.ring?.businessId, (fault.cause as Error).message], ["fails", "no database"]);
  assert.equal((await awaitAlarm(app, "fails", "ringing")).answer, null);
});

test("an answer without effect is told", async (t) => {
  const app = newApplication(),
    consuming = new Consuming(t, app, () => bury());
  await setSoon(app, ["x"]);
  assert.match((await consuming.faults.take()).message, /bury has no effect/);
});

// The stream is cut in the middle of a ring. The next one resumes it, so the ring comes again at once.
test("a consumer goes on after cut streams", async (t) => {
  const app = newApplication(),
    url = await faulty("cut", { status: 503, body: "<html>" }, "stall", "half-ring");
  const consuming = new Consuming(t, app, done, {}, url, 2000);
  for (const text of [/stream of/, /status 503/, /not respond within 2 s/])
    assert.match((await consuming.faults.take()).message, text);
  await setSoon(app, ["x"], { ackTimeout: "1h" });
  assert.equal((await consuming.rings.take()).ringNo, 1);
  assert.equal((await awaitAlarm(app, "x", "rung")).ringNo, 1);
});

test("each message id is handled once", async (t) => {
  const app = newApplication(),
    consuming = new Consuming(t, app, done, {}, await faulty("copies"));
  await setSoon(app, ["a", "b"], { ackTimeout: "1h" });
  await awaitAlarm(app, "b", "rung");
  await setSoon(app, ["c"]); // behind the copies
  const ids = [];
  for (let n = 0; n < 3; n++) ids.push((await consuming.rings.take()).businessId);
  assert.equal(await consuming.stop(), undefined);
  assert.deepEqual([ids.sort(), consuming.rings.items.length], [["a", "b", "c"], 0]);
});

test("a consumer outlasts a killed clockd", async (t) => {
  const url = await startClockd();
  const consuming = new Consuming(t, "shop", done, {}, url);
  await setSoon("shop", ["before"], { ackTimeout: "1h" }, url);
  assert.equal((await consuming.rings.take()).businessId, "before");
  await awaitAlarm("shop", "before", "rung", url);
  await killClockd(url);
  assert.match((await consuming.faults.take()).message, /stream of shop/);
  await startClockd(url);
  await setSoon("shop", ["after"], { ackTimeout: "1h" }, url);
  assert.equal((await consuming.rings.take()).businessId, "after");
  await awaitAlarm("shop", "after", "rung", url);
  await consuming.stop();
  await killClockd(url);
});

for (const concurrency of [1, 3]) {
  test(`a worker reserves rings for ${concurrency} handlers`, async (t) => {
    const app = newApplication(),
      ids = new Set(["a", "b", "c", "d", "e"]);
    await setTarget(app, "pull");
    await setSoon(app, [...ids], { ackTimeout: "1s" }); // after which the ring of the lost response rings again
    const url = await faulty("cut", "lose", busy());
    const consuming = new Consuming(t, app, done, { pull: true, concurrency }, url);
    while (ids.size > 0) ids.delete((await consuming.rings.take()).businessId);
  });
}

test("a refusal ends the consumer", async (t) => {
  for (const [name, url, code] of [
    ["-", server, "invalid_application"],
    ["shop", await faulty({ status: 403, body: "<html>" }), ""],
    ["shop", await faulty({ status: 200, body: "<html>" }), ""],
  ] as const) {
    const error = await new Consuming(t, name, done, {}, url).ended;
    assert.ok(error instanceof ClockdError);
    assert.equal(error.code, code);
  }
});

test("rings that were read are handled after the stop", async (t) => {
  const app = newApplication();
  let goOn = () => {};
  const waiting = new Promise<void>((resolve) => (goOn = resolve));
  await setSoon(app, ["a"], { ackTimeout: "1h" });
  const consuming = new Consuming(t, app, () => waiting);
  await consuming.rings.take();
  const ended = consuming.stop();
  goOn();
  assert.equal(await ended, undefined);
  assert.equal((await awaitAlarm(app, "a", "rung")).answer, "ack");
});

test("rings that are left are counted", async (t) => {
  const app = newApplication();
  await setSoon(app, ["a"], { ackTimeout: "1h" });
  let gaveUp = false;
  const consuming = new Consuming(
    t,
    app,
    (_, signal) =>
      new Promise((resolve) => {
        signal.addEventListener("abort", () => resolve(((gaveUp = true), undefined)));
      }),
    { drain: 50 },
  );
  await consuming.rings.take();
  const error = await consuming.stop();
  assert.ok(error instanceof ClockdError);
  assert.equal(error.message, `rings of ${app} that were read and not handled within 0.05 s: 1`);
  assert.ok(gaveUp);
});

/** Returns a stream of these events. */
function streamOf(events: string[]) {
  return { status: 200, headers: { "Content-Type": "text/event-stream" }, body: events.join("") };
}

test("an event that cannot be read is skipped", async (t) => {
  const app = newApplication();
  const events = ["{garbage", "null", "{}", "[".repeat(99_999)].map(
    (data, n) => `event: ring\nid: é${n}\ndata: ${data}\n\n`,
  );
  const consuming = new Consuming(t, app, done, {}, await faulty(streamOf(events)));
  for (const _ of events) assert.match((await consuming.faults.take()).message, /cannot be read/);
  await setSoon(app, ["x"], { ackTimeout: "1h" });
  assert.equal((await consuming.rings.take()).businessId, "x");
});

test("rings beyond the read-ahead are handled after the stop", async (t) => {
  const events = Array.from(
    { length: 10 },
    (_, n) => `event: ring\nid: ${n}\ndata: {"message_id":"${n}.1.1","business_id":"${n}","application":"x"}\n\n`,
  );
  let goOn = () => {};
  const waiting = new Promise<void>((resolve) => (goOn = resolve));
  const consuming = new Consuming(t, newApplication(), () => waiting, { readAhead: 2 }, await faulty(streamOf(events)));
  assert.equal((await consuming.rings.take()).businessId, "0");
  const ended = consuming.stop();
  goOn();
  assert.equal(await ended, undefined);
  assert.deepEqual(
    consuming.rings.items.map((ring) => ring.businessId),
    ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
  );
});

for (const [name, outcome] of Object.entries<() => never>({
  null: () => {
    throw null;
  },
  "an object without a text": () => {
    throw Object.create(null);
  },
  true: () => true as never,
  "a text": () => "ack" as never,
  "release without its call": () => release as never,
})) {
  test(`a handler may throw or return anything: ${name}`, async (t) => {
    const app = newApplication();
    const consuming = new Consuming(t, app, (ring) => (ring.businessId === "a" ? outcome() : undefined));
    await setSoon(app, ["a"], { ackTimeout: "1h" });
    assert.equal((await consuming.faults.take()).ring?.businessId, "a");
    await setSoon(app, ["b"], { ackTimeout: "1h" });
    await awaitAlarm(app, "b", "rung");
  });
}

test("a fault of onFault ends nothing", async (t) => {
  const app = newApplication();
  t.mock.method(console, "error", () => {});
  new Consuming(t, app, () => bury(), {
    onFault: async () => {
      throw new Error("no log");
    },
  });
  await setSoon(app, ["x"]);
  await setSoon(app, ["y"], { ackTimeout: "1h" });
  await awaitAlarm(app, "y", "dead");
});

test("reserves without rings do not spin", async (t) => {
  const app = newApplication(),
    empty = { status: 200, body: '{"rings":[]}' };
  await setTarget(app, "pull");
  const url = await faulty(empty, empty, empty),
    began = Date.now();
  new Consuming(t, app, done, { pull: true }, url);
  while ((await asked(url)).length < 3) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.ok(Date.now() - began > 1900); // the timer is the consumer's own
});

test("wrong options of a consumer are refused", async () => {
  for (const options of [
    { concurrency: 0 },
    { concurrency: 1.5 },
    { memory: "1" },
    { drain: NaN },
    { concurency: 2 },
  ] as ConsumeOptions[]) {
    await assert.rejects(connect().consume("shop", done, options), { code: "invalid_value" });
  }
  await assert.rejects(connect().consume("shop", undefined as unknown as Handler), {
    code: "invalid_value",
    field: "handle",
  });
});
