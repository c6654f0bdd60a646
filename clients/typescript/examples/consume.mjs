// Receives the rings of the application shop from the stream, until Ctrl-C or SIGTERM.
import { Client } from "@clockd/client";

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());

await new Client(undefined, { name: "worker-7" }).consume(
  "shop",
  async (ring) => {
    console.log(ring.businessId, JSON.stringify(ring.payload)); // the work
    // return nothing: done; or release({ delay: "1m", reason: "no stock" }), or bury({ reason: "no such order" })
  },
  { signal: stop.signal, concurrency: 4 },
);
