// Sets, reads, refuses, lists and cancels an alarm at a running clockd, with a client whose types openapi-typescript makes from openapi-3.0.yaml.
// usage: node built/roundtrip.js URL
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const path = { application: "typescript", business_id: "order/4711" };

const set = await client.PUT("/v1/applications/{application}/alarms/{business_id}", {
  params: { path },
  body: { delay: "1h", payload: { order: 4711 }, retry: { limit: 3 } },
});
assert.equal(set.response.status, 201, JSON.stringify(set.error));
assert.equal(set.data?.state, "scheduled");
assert.equal(set.data?.business_id, path.business_id);

const got = await client.GET("/v1/applications/{application}/alarms/{business_id}", { params: { path } });
assert.equal(got.data?.retry.limit, 3);
assert.deepEqual(got.data?.payload, { order: 4711 });
assert.equal(got.data?.ring_at, set.data?.ring_at);

const refused = await client.PUT("/v1/applications/{application}/alarms/{business_id}", {
  params: { path },
  body: { delay: "1h", max_rings: 0 },
});
assert.equal(refused.response.status, 422);
assert.equal(refused.error?.code, "out_of_range");
assert.equal(refused.error?.field, "max_rings");

const listed = await client.GET("/v1/applications/{application}/alarms", {
  params: { path: { application: path.application }, query: { prefix: "order/" } },
});
assert.deepEqual(listed.data?.alarms.map((alarm) => alarm.business_id), [path.business_id]);

const cancelled = await client.DELETE("/v1/applications/{application}/alarms/{business_id}", { params: { path } });
assert.equal(cancelled.data?.state, "cancelled");

const missing = await client.GET("/v1/applications/{application}/alarms/{business_id}", {
  params: { path: { ...path, business_id: "no such" } },
});
assert.equal(missing.response.status, 404);
assert.equal(missing.error?.code, "unknown_alarm");

console.log("typescript: set, get, refuse, list, cancel: ok");
