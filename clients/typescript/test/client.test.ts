// Calls to a real clockd, also with faults of the connection.
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { bury, type Change, Client, ClockdError, NO_ANSWER, type Ring, type SetFields } from "../src/index.js";
import { asked, busy, connect, faulty, type FaultyResponse, newApplication } from "./service.js";

const later = new Date("2091-01-01T00:00:00Z");
const day = 24 * 3600_000;

/** Returns the failure of a call, which has the code. */
async function refused(promise: Promise<unknown>, code: string): Promise<ClockdError> {
  const failed = await promise.then(
    () => assert.fail("no error"),
    (error: unknown) => error,
  );
  assert.ok(failed instanceof ClockdError, String(failed));
  assert.equal(failed.code, code, failed.message);
  return failed;
}

test("an alarm is set, read, moved and cancelled", async () => {
  const client = connect(),
    app = newApplication(),
    id = "a/b%+ ü..";
  const alarm = await client.set(app, id, {
    ringAt: later,
    payload: { order: 4711 },
    ackTimeout: "1m30s",
    priority: 7,
  });
  assert.deepEqual([alarm.application, alarm.businessId, alarm.state, alarm.generation], [app, id, "scheduled", 1]);
  assert.deepEqual(
    [alarm.ringAt, alarm.ackTimeout, alarm.payload, alarm.raw["priority"]],
    [later, 90_000, { order: 4711 }, 7],
  );
  const moved = await client.set(app, id, { ringAt: later.getTime() + day, onlyIf: 1 });
  assert.deepEqual([moved.generation, moved.ringAt], [2, new Date(later.getTime() + day)]);
  assert.deepEqual((await client.get(app, id)).raw, { ...moved.raw, attempts: [], blockers: [] });
  const failed = await refused(client.cancel(app, id, { onlyIf: 1 }), "condition_failed");
  assert.deepEqual([failed.status, failed.alarm?.generation], [412, 2]);
  assert.equal((await client.cancel(app, id, { note: "closed" })).state, "cancelled");
  assert.equal((await client.cancel(app, id)).state, "cancelled");
});

test("every id is one segment", async () => {
  const client = connect(),
    app = newApplication();
  for (const id of ["...", "😀?#&", "%2F", "a//b"])
    assert.equal((await client.set(app, id, { delay: "1h" })).businessId, id);
  await refused(client.get(app, ".."), "invalid_value");
  await refused(client.get(app, "\ud800"), "invalid_value");
});

test("a payload returns as it was set", async () => {
  const client = connect(),
    app = newApplication();
  const cases: [SetFields, string | null, unknown][] = [
    [{}, null, null],
    [{ payload: null }, "json", null],
    [{ payload: ["ü", 1.5, {}] }, "json", ["ü", 1.5, {}]],
    [{ text: "" }, "text", ""],
    [{ data: Uint8Array.of(0, 255, 10) }, "bytes", Uint8Array.of(0, 255, 10)],
  ];
  for (const [given, kind, value] of cases) {
    const alarm = await client.set(app, "x", { delay: 3600_000, ...given });
    assert.deepEqual([alarm.payloadKind, alarm.payload], [kind, value]);
  }
});

test("a repeating alarm has its occurrence", async () => {
  const repeat = { cron: "0 9 * * MON", timeZone: "Europe/Berlin", from: later, skipDates: ["2091-01-08"] };
  const { occurrence } = await connect().set(newApplication(), "x", { repeat });
  assert.deepEqual(occurrence, {
    number: 1,
    at: new Date("2091-01-01T08:00:00Z"),
    previousAt: null,
    nextAt: new Date("2091-01-15T08:00:00Z"),
  });
});

test("a local time has its instant", async () => {
  const alarm = await connect().set(newApplication(), "x", {
    ringAt: "2090-07-31T18:30:00",
    timeZone: "Europe/Berlin",
  });
  assert.deepEqual(alarm.ringAt, new Date("2090-07-31T16:30:00Z"));
});

test("faults of the input name the field", async () => {
  const client = connect(),
    app = newApplication();
  const failed = await refused(client.set(app, "x", { delay: "1h", priority: 10 }), "out_of_range");
  assert.deepEqual([failed.field, failed.status, failed.unconfirmed], ["priority", 422, false]);
  await refused(client.set(app, "x", {}), "required");
  assert.equal((await refused(client.set(app, "x", { delay: "soon" }), "invalid_value")).field, "delay");
  for (const [field, given] of Object.entries<SetFields>({
    ring_at: { ringAt: new Date(NaN) },
    delay: { delay: NaN },
    payload: { payload: 1, text: "x" },
    "": { payload: 1n },
  })) {
    const failed = await refused(client.set(app, "x", given), "invalid_value");
    assert.deepEqual([failed.field, failed.status], [field, 0]);
  }
  for (const payload of [() => 1, NaN, [Infinity], Uint8Array.of(1)]) {
    await refused(client.set(app, "x", { delay: "1h", payload }), "invalid_value");
  }
  for (const [field, given] of [
    ["onlyif", { onlyif: "absent" }],
    ["ack_timeout", { ack_timeout: "1m" }],
    ["limt", { retry: { limt: 3 } }],
    ["time_zone", { repeat: { every: "5s", time_zone: "UTC" } }],
    ["data", { data: "x" }],
  ] as [string, object][]) {
    assert.equal((await refused(client.set(app, "x", { delay: "1h", ...given }), "invalid_value")).field, field);
  }
  await refused(client.set(app, undefined as unknown as string, { delay: "1h" }), "invalid_value");
  await refused(client.set(app, "x", undefined as unknown as SetFields), "invalid_value");
  assert.equal((await refused(client.get(app, "x"), "unknown_alarm")).status, 404);
});

test("a condition is never dropped", async () => {
  const client = connect(),
    app = newApplication();
  await client.set(app, "x", { delay: "1h" });
  for (const onlyIf of ["7", 7.5, true, "now", null] as unknown as number[]) {
    assert.equal((await refused(client.cancel(app, "x", { onlyIf }), "invalid_value")).field, "only_if");
    assert.equal((await refused(client.set(app, "x", { delay: "2h", onlyIf }), "invalid_value")).field, "only_if");
  }
  await refused(client.cancel(app, "x", { onlyIf: "absent" as unknown as number }), "invalid_value");
  assert.equal((await client.get(app, "x")).generation, 1);
});

test("wrong options are refused", () => {
  for (const make of [
    () => new Client("localhost:8080"),
    () => new Client("ftp://x"),
    () => new Client("http://"),
    () => new Client(undefined, { token: "a\nb" }),
    () => new Client(undefined, { tries: 0 }),
    () => new Client(undefined, { timeout: NaN }),
    () => new Client(undefined, { tryTimeout: Infinity }),
    () => new Client("http://x/?"),
    () => new Client("http://me:secret@x"),
    () => new Client(undefined, { tmeout: 5 } as object),
  ]) {
    assert.throws(
      make,
      (error) => error instanceof ClockdError && error.code === "invalid_value" && !error.message.includes("secret"),
    );
  }
});

test("a batch returns sets, then cancels", async () => {
  const client = connect(),
    app = newApplication();
  const results = await client.batch(app, [
    { cancel: "a" },
    { set: "a", delay: "1h", text: "x" },
    { set: "b", delay: "1h", priority: -1 },
    { cancel: "missing" },
  ]);
  assert.deepEqual(
    results.map((r) => [r.businessId, r.status, r.state, r.error?.code, r.error?.field]),
    [
      ["a", 201, "scheduled", undefined, undefined],
      ["b", 422, null, "out_of_range", "priority"],
      ["a", 200, "cancelled", undefined, undefined],
      ["missing", 404, null, "unknown_alarm", ""],
    ],
  );
  assert.deepEqual(await client.batch(app, []), []);
  for (const wrong of [
    { set: "x", delay: "1h", onlyIf: 1 },
    { set: "x", delay: "1h", traceparent: "00-1" },
    { set: "", delay: "1h" },
    { cancel: "" },
  ] as Change[]) {
    await refused(client.batch(app, [wrong]), "invalid_value");
  }
});

test("alarms are listed over pages", async () => {
  const client = connect(),
    app = newApplication();
  const changes: Change[] = Array.from({ length: 1000 }, (_, n) => ({
    set: `order-${String(n).padStart(4, "0")}`,
    ringAt: later,
  }));
  await client.batch(app, changes);
  await client.batch(app, [{ set: "x", delay: "1h" }, { cancel: "order-0007" }]);
  const ids = async (filter = {}) => {
    const found: string[] = [];
    for await (const alarm of client.alarms(app, filter)) found.push(alarm.businessId);
    return found;
  };
  assert.equal((await ids()).length, 1001);
  assert.equal((await ids({ limit: 1001 })).length, 1001);
  assert.deepEqual(await ids({ limit: 0 }), []);
  assert.deepEqual(await ids({ limit: 2 }), ["order-0000", "order-0001"]);
  assert.deepEqual(await ids({ prefix: "order-000", states: ["cancelled", "dead"] }), ["order-0007"]);
  assert.deepEqual(await ids({ dueBefore: Date.now() + 2 * 3600_000 }), ["x"]);
});

const passing: [string, FaultyResponse][] = [
  ["cut", "cut"],
  ["lose", "lose"],
  ["half", "half"],
  ["unavailable", busy("unavailable")],
  ["unconfirmed", busy("unconfirmed")],
  ["a proxy", { status: 502, body: "<html>" }],
];
for (const [name, fault] of passing) {
  test(`calls are repeated after a fault that passes: ${name}`, async () => {
    const url = await faulty(fault, fault),
      app = newApplication();
    const client = connect(url);
    assert.equal((await client.set(app, "x", { ringAt: later })).generation, 1);
    assert.deepEqual(await asked(url), Array(3).fill(`PUT /v1/applications/${app}/alarms/x`));
    assert.equal((await client.cancel(app, "x")).state, "cancelled");
  });
}

for (const [name, fault] of [
  ["cut", "cut"],
  ["lose", "lose"],
  ["unavailable", busy("unavailable")],
] as const) {
  test(`a set with a delay is repeated only if absent: ${name}`, async () => {
    const app = newApplication(),
      isBusy = name === "unavailable";
    let url = await faulty(fault);
    const failed = await refused(connect(url).set(app, "x", { delay: "1h" }), isBusy ? "unavailable" : "");
    assert.equal(failed.unconfirmed, !isBusy);
    assert.equal((await asked(url)).length, 1);
    url = await faulty(fault);
    const again = connect(url).set(app, "y", { delay: "1h", onlyIf: "absent" });
    if (name === "lose") {
      // the first try has set the alarm
      const failed = await refused(again, "condition_failed");
      assert.deepEqual([failed.unconfirmed, failed.alarm?.generation], [true, 1]);
    } else assert.equal((await again).generation, 1);
    assert.equal((await asked(url)).length, 2);
  });
}

test("a call ends with its time", async () => {
  const url = await faulty("stall", "stall");
  const failed = await refused(connect(url, { timeout: 300 }).set(newApplication(), "x", { ringAt: later }), "");
  assert.ok(failed.unconfirmed);
  assert.ok((await asked(url)).length <= 1); // none if the machine is too busy
});

test("a call ends with its signal", async () => {
  const url = await faulty("stall"),
    controller = new AbortController();
  const set = connect(url).set(newApplication(), "x", { ringAt: later }, { signal: controller.signal });
  while ((await asked(url)).length === 0);
  controller.abort("the shop is closed");
  const failed = await refused(set, "");
  assert.deepEqual([failed.cause, failed.unconfirmed, failed.again], ["the shop is closed", true, false]);
  await refused(connect().get(newApplication(), "x", { signal: controller.signal }), "");
});

test("a try that is too slow is repeated", async () => {
  const url = await faulty("stall");
  assert.equal((await connect(url, { tryTimeout: 1000 }).set(newApplication(), "x", { ringAt: later })).generation, 1);
  assert.ok((await asked(url)).length >= 2); // more if the machine is too busy
});

test("a server that cannot be reached has changed nothing", async () => {
  const closed = createServer().listen(0, "127.0.0.1");
  await once(closed, "listening");
  const { port } = closed.address() as AddressInfo;
  await new Promise((resolve) => closed.close(resolve));
  const client = connect(`http://127.0.0.1:${port}`, { tries: 2 });
  const failed = await refused(client.set("shop", "x", { ringAt: later }), "");
  assert.deepEqual([failed.status, failed.unconfirmed, failed.again], [0, false, true]);
});

test("an answer whose response was lost is no failure", async () => {
  const client = connect(),
    app = newApplication(),
    stop = new AbortController();
  await refused(client.ack(app, "1.1.1"), "unknown_ring");
  await client.set(app, "x", { delay: 0, ackTimeout: "1h" });
  let ring: Ring | undefined;
  await client.consume(
    app,
    (r) => {
      ring = r;
      stop.abort();
      return NO_ANSWER;
    },
    { signal: stop.signal },
  );
  const url = await faulty("lose");
  const alarm = await connect(url, { name: "worker-7" }).answer(app, ring!.messageId, bury({ reason: "broken" }));
  assert.deepEqual(
    [alarm.state, alarm.answer, alarm.answeredBy, alarm.lastError],
    ["dead", "bury", "worker-7", "buried: broken"],
  );
  assert.equal((await asked(url)).length, 2);
  assert.ok((await refused(client.ack(app, ring!.messageId), "stale_ring")).alarm);
});
