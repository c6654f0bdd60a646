// The contract that the clients in all languages have: clients/contract.json.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as call from "../src/call.js";
import { EventReader } from "../src/events.js";
import * as clockd from "../src/index.js";
import { readDuration } from "../src/values.js";

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Any = any;
const contract: Any = JSON.parse(readFileSync(new URL("../../../contract.json", import.meta.url), "utf8"));

const camel = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

test("segments", () => {
  for (const id of contract.segments.ids) {
    const segment = call.segment(id);
    assert.equal(decodeURIComponent(segment), id);
    for (const reserved of contract.segments.without) assert.ok(!segment.includes(reserved), segment);
  }
  // a URL of JavaScript takes even %2E for a step to another folder
  for (const { id } of contract.segments.same) assert.throws(() => call.segment(id), { code: "invalid_value" });
});

test("durations", () => {
  for (const { text, us } of contract.durations) {
    if (us === null) assert.throws(() => readDuration(text), text);
    else assert.equal(readDuration(text)! * 1000, us, text);
  }
});

/** Returns the members of a set as the client names and takes them. */
function fieldsOf(members: Any): Any {
  return Object.fromEntries(
    Object.entries<Any>(members).map(([name, value]) => {
      if (name === "data_base64") return ["data", Buffer.from(value, "base64")];
      if (name === "ring_at_local") return ["ringAt", value];
      if (name === "retry" || name === "repeat") return [name, fieldsOf(value)];
      return name.endsWith("_us") ? [camel(name.slice(0, -3)), value / 1000] : [camel(name), value];
    }),
  );
}

for (const { name, set, body, headers = {}, repeat, refused } of contract.sets) {
  test(`set: ${name}`, () => {
    if (refused) {
      assert.throws(() => call.setRequest("shop", "x", fieldsOf(set)), { code: "invalid_value", field: refused });
      return;
    }
    const request = call.setRequest("shop", "x", fieldsOf(set));
    assert.deepEqual(JSON.parse(request.body!), body);
    assert.deepEqual(request.headers, headers);
    assert.equal(request.repeat, repeat);
  });
}

test("answers", () => {
  for (const { kind, delay_us, body, ...more } of contract.answers) {
    const given = delay_us === undefined ? more : { delay: delay_us / 1000, ...more };
    const make = { ack: clockd.ack, release: clockd.release, bury: clockd.bury, touch: clockd.touch }[kind as "ack"];
    const request = call.answerRequest("shop", "1.1.1", make(given), "");
    assert.equal(request.path, `/v1/applications/shop/rings/1.1.1/${kind}`);
    assert.deepEqual(JSON.parse(request.body!), body);
  }
});

/** Returns a client whose requests fail, and their number. */
function played(failure: Any, tries: number): { client: clockd.Client; count: () => number } {
  let count = 0;
  const play = async () => {
    count++;
    if (failure.status) return new Response(failure.body, { status: failure.status, headers: failure.headers ?? {} });
    const cause = Object.assign(new Error("broken"), { code: failure.sent ? "ECONNRESET" : "ECONNREFUSED" });
    throw new TypeError("fetch failed", { cause });
  };
  return { client: new clockd.Client("http://service", { tries, fetch: play }), count: () => count };
}

async function failureOf(promise: Promise<unknown>): Promise<clockd.ClockdError> {
  const failed = await promise.then(
    () => assert.fail("no error"),
    (error: unknown) => error,
  );
  assert.ok(failed instanceof clockd.ClockdError, String(failed));
  return failed;
}

for (const failure of contract.failures) {
  test(`failure: ${failure.name}`, async () => {
    const failed = await failureOf(played(failure, 1).client.cancel("shop", "x"));
    const { status = 0, code = "", field = "", detail, retry_after_s = 0, alarm, text } = failure.want ?? {};
    assert.deepEqual([failed.again, failed.unconfirmed], [failure.again, failure.sent]);
    assert.deepEqual([failed.status, failed.code, failed.field], [status, code, field]);
    assert.deepEqual([failed.retryAfter, failed.alarm?.businessId], [retry_after_s * 1000, alarm]);
    if (detail !== undefined) assert.equal(failed.detail, detail);
    if (text !== undefined) assert.equal(failed.message, text);
  });
}

const ringAt = new Date(0);
const calls: Record<string, (c: clockd.Client) => Promise<unknown>> = {
  get: (c) => c.get("shop", "x"),
  list: (c) => c.alarms("shop").next(),
  cancel: (c) => c.cancel("shop", "x"),
  ack: (c) => c.ack("shop", "1.1.1"),
  release: (c) => c.answer("shop", "1.1.1", clockd.release()),
  bury: (c) => c.answer("shop", "1.1.1", clockd.bury()),
  touch: (c) => c.answer("shop", "1.1.1", clockd.touch()),
  "set with ring_at": (c) => c.set("shop", "x", { ringAt }),
  "set with delay": (c) => c.set("shop", "x", { delay: "1m" }),
  "set with delay, absent": (c) => c.set("shop", "x", { delay: "1m", onlyIf: "absent" }),
  "batch with ring_at": (c) => c.batch("shop", [{ set: "x", ringAt }]),
  "batch with a delay": (c) =>
    c.batch("shop", [
      { set: "x", ringAt },
      { set: "y", delay: "1m" },
    ]),
  reserve: (c) => c.reserve("shop"),
};

for (const failure of contract.failures) {
  test(`repeats: ${failure.name}`, async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    assert.deepEqual(Object.keys(calls).sort(), Object.keys(contract.repeats).sort());
    for (const [name, repeat] of Object.entries(contract.repeats)) {
      const { client, count } = played(failure, 4);
      let over = false;
      const failed = failureOf(calls[name]!(client)).finally(() => (over = true));
      while (!over) {
        t.mock.timers.tick(10_000);
        await new Promise((resolve) => setImmediate(resolve));
      }
      await failed;
      const again = failure.again && (repeat === "always" || (repeat === "unsent" && !failure.sent));
      assert.equal(count(), again ? 4 : 1, name);
    }
  });
}

test("waits", () => {
  for (const { try: n, retry_after_s, min_ms, max_ms } of contract.waits) {
    for (let i = 0; i < 100; i++) {
      const wait = call.backoff(n, retry_after_s * 1000);
      if (min_ms === null) assert.equal(wait, null);
      else assert.ok(wait !== null && wait >= min_ms && wait <= max_ms, String(wait));
    }
  }
  for (const { value, s } of contract.retry_after) assert.equal(call.readRetryAfter(value), s * 1000, value);
  assert.equal(
    call.readRetryAfter(new Date(Math.ceil(Date.now() / 1000) * 1000 + 3600_000).toUTCString()) / 1000 > 3590,
    true,
  );
});

for (const { name, stream, events } of contract.events) {
  test(`events: ${name}`, () => {
    for (const size of [1, 3, 1000]) {
      const reader = new EventReader();
      const got = [];
      for (let at = 0; at < stream.length; at += size) got.push(...reader.feed(stream.slice(at, at + size)));
      assert.deepEqual(got, events);
    }
  });
}

const micros = (date: Date | null) => (date === null ? null : date.getTime() * 1000);

for (const { name, json, want } of contract.rings) {
  test(`ring: ${name}`, () => {
    if (want === null) {
      assert.throws(() => clockd.readRing(JSON.parse(json)));
      return;
    }
    const ring: Any = clockd.readRing(JSON.parse(json));
    for (const [member, value] of Object.entries<Any>(want)) {
      const got = ring[camel(member.replace(/_us$/, ""))];
      if (member === "occurrence") {
        const { number, at, previousAt, nextAt } = got;
        assert.deepEqual(
          { number, at_us: micros(at), previous_at_us: micros(previousAt), next_at_us: micros(nextAt) },
          value,
        );
      } else if (member === "payload") assert.deepEqual([ring.payloadKind, ring.payload], ["json", value]);
      else if (member === "text") assert.deepEqual([ring.payloadKind, ring.payload], ["text", value]);
      else if (member === "data_base64") {
        assert.deepEqual([ring.payloadKind, Buffer.from(ring.payload).toString("base64")], ["bytes", value]);
      } else if (member === "ack_timeout_us") assert.equal(got === null ? null : got * 1000, value);
      else if (member.endsWith("_us")) assert.equal(micros(got), value, member);
      else assert.equal(got, value, member);
    }
  });
}

test("secrets", () => {
  for (const { secrets, valid } of contract.webhooks.secrets) {
    if (valid) new clockd.Verifier(secrets);
    else assert.throws(() => new clockd.Verifier(secrets), TypeError);
  }
});

for (const request of contract.webhooks.requests) {
  test(`webhook: ${request.name}`, () => {
    const { published, headers, body } = contract.webhooks;
    const verifier = new clockd.Verifier(request.secrets ?? published, {
      tolerance: (request.tolerance_s ?? 300) * 1000,
    });
    const given = request.headers ?? { ...headers, ...request.changed };
    const now = new Date(request.now_s * 1000);
    let fault = "valid";
    try {
      verifier.verify(given, Buffer.from(request.body ?? body), now);
    } catch (error) {
      assert.ok(error instanceof clockd.WebhookError);
      assert.doesNotMatch(error.message, /whsec_|v1,/);
      fault = error.fault;
    }
    assert.equal(fault, request.want);
  });
}

test("a header that occurs twice is no webhook", () => {
  const { published, headers, body } = contract.webhooks,
    now = new Date(1614265330_000);
  for (const name of Object.keys(headers)) {
    for (const twice of [
      { [name.toUpperCase()]: "x", ...headers },
      { ...headers, [name.toUpperCase()]: "x" },
      { ...headers, [name]: [headers[name], "x"] },
    ]) {
      assert.throws(() => new clockd.Verifier(published).verify(twice, body, now), { fault: "headers" });
    }
  }
  assert.equal(new clockd.Verifier(published).verify(headers, body, now), headers["webhook-id"]);
  assert.throws(() => new clockd.Verifier(published).verify(headers, body, new Date(NaN)), { fault: "time" });
  for (const tolerance of [NaN, "5m", -1])
    assert.throws(() => new clockd.Verifier(published, { tolerance: tolerance as number }), TypeError);
});

test("an event of empty lines is bounded", () => {
  const reader = new EventReader();
  assert.throws(() => {
    for (let n = 0; n < 20; n++) [...reader.feed("data\n".repeat(1 << 20))];
  }, RangeError);
});
