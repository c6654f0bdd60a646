// Reserves the rings of the application mail, whose target is pull, until Ctrl-C or SIGTERM.
import { Client } from "@clockd/client";

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());

await new Client().consume(
  "mail",
  async (ring) => {
    console.log(ring.businessId, JSON.stringify(ring.payload)); // the work
  },
  { signal: stop.signal, pull: true, concurrency: 16 },
);
