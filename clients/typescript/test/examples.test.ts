// The programs of the README, which are the files in examples/. They use the built package.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { connect, server, setTarget } from "./service.js";

const root = new URL("../../", import.meta.url);

test("the README has the examples", () => {
  const blocks = [...readFileSync(new URL("README.md", root), "utf8").matchAll(/```js\n(.*?)```/gs)].map((m) => m[1]);
  const examples = new URL("examples/", root);
  assert.deepEqual(
    blocks.sort(),
    readdirSync(examples)
      .map((name) => readFileSync(new URL(name, examples), "utf8"))
      .sort(),
  );
});

/** Starts an example, which prints lines. */
function start(name: string, environment: Record<string, string> = {}) {
  const env = { ...process.env, CLOCKD_SERVER: server, ...environment };
  const program = spawn(process.execPath, [new URL(`examples/${name}.mjs`, root).pathname], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface(program.stdout)[Symbol.asyncIterator]();
  const ended = once(program, "exit").then(([code]) => code as number | null);
  return { program, ended, line: async () => String((await lines.next()).value) };
}

test("set and cancel", async () => {
  const { line, ended } = start("set-and-cancel");
  assert.match(await line(), /^rings at \d{4}-/);
  assert.equal(await line(), "cancelled");
  assert.equal(await ended, 0);
});

test("repeat", async () => {
  const { line, ended } = start("repeat");
  assert.deepEqual([await line(), await line()], ["daily scheduled", "heartbeat scheduled"]);
  assert.match(await line(), /^weekly .*unknown_alarm/);
  assert.equal(await ended, 0);
  await connect().batch("reports", [{ cancel: "daily" }, { cancel: "heartbeat" }]);
});

for (const [name, app] of [
  ["consume", "shop"],
  ["worker", "mail"],
] as const) {
  test(`receiver: ${name}`, async () => {
    if (name === "worker") await setTarget(app, "pull");
    const { program, line, ended } = start(name),
      client = connect();
    await client.set(app, "example", { delay: 0, payload: { order: 4711 }, ackTimeout: "1h" });
    assert.equal(await line(), 'example {"order":4711}');
    while ((await client.get(app, "example")).state !== "rung");
    program.kill("SIGTERM");
    assert.equal(await ended, 0);
  });
}

test("webhook", async () => {
  const key = Buffer.from("C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "base64");
  const { program, line, ended } = start("webhook", { SECRET: `whsec_${key.toString("base64")}`, PORT: "0" });
  const port = (await line()).split(" ").at(-1);
  const now = String(Math.floor(Date.now() / 1000)),
    body = '{"order":4711}';
  const signature = createHmac("sha256", key).update(`1.1.1.${now}.${body}`).digest("base64");
  const post = async (signed: string) => {
    const headers = {
      "webhook-id": "1.1.1",
      "webhook-timestamp": now,
      "webhook-signature": signed,
      "x-clockd-business-id": "a%2Fb",
    };
    return (await fetch(`http://127.0.0.1:${port}`, { method: "POST", headers, body })).status;
  };
  assert.deepEqual(
    [await post(`v1,${signature}`), await post("v1,AAAA"), await post(`v1,${signature}`)],
    [204, 401, 204],
  );
  assert.equal(await line(), `a/b ${body}`); // once
  program.kill();
  await ended;
});
