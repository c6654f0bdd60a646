// Sets alarms that ring again, several at once.
import { Client } from "@clockd/client";

const workdays = { cron: "0 9 * * MON-FRI", timeZone: "Europe/Berlin", missed: "skip" };
const results = await new Client().batch("reports", [
  { set: "daily", repeat: workdays, ackTimeout: "5m" },
  { set: "heartbeat", repeat: { every: "30s" } },
  { cancel: "weekly" },
]);
for (const { businessId, state, error } of results) console.log(businessId, state ?? error?.message);
