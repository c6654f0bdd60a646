// Sets an alarm, and cancels it.
import { Client, ClockdError } from "@clockd/client";

const client = new Client();
const alarm = await client.set("shop", "order-4711", { delay: "30m", payload: { order: 4711 }, onlyIf: "absent" });
console.log("rings at", alarm.ringAt);

try {
  console.log((await client.cancel("shop", "order-4711")).state);
} catch (error) {
  if (!(error instanceof ClockdError) || error.code !== "already_rung") throw error;
  console.log("too late: it has rung at", error.alarm?.rungAt);
}
