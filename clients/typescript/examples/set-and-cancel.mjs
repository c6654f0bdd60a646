// Sets an alarm, and cancels it.
import { Client, ClockdError } from "@clockd/client";

const client = new Client();
const ringAt = new Date(Date.now() + 30 * 60_000);
const alarm = await client.set("shop", "order-4711", { ringAt, payload: { order: 4711 } });
console.log("rings at", alarm.ringAt);

try {
  console.log((await client.cancel("shop", "order-4711")).state);
} catch (error) {
  if (!(error instanceof ClockdError) || error.code !== "already_rung") throw error;
  console.log("too late: it has rung at", error.alarm?.rungAt);
}
