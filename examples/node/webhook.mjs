// Receives the rings of an application as signed requests, and prints them.
// usage: SECRET=whsec_... node webhook.mjs, with LISTEN=host:port in the environment for another address than 127.0.0.1:8081
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.SECRET); // "clockd application set" printed it
const seen = new Set(); // in production: a table, written in the transaction of the work

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts);
  try {
    webhook.verify(body, request.headers);
  } catch (failure) {
    response.writeHead(401).end(failure.message);
    return;
  }
  const id = request.headers["webhook-id"];
  if (!seen.has(id)) {
    console.log(decodeURIComponent(request.headers["x-clockd-business-id"]), body.toString());
    seen.add(id);
  }
  response.writeHead(204).end(); // the ring counts as delivered and acknowledged
});

const [host, port] = (process.env.LISTEN ?? "127.0.0.1:8081").split(":");
server.listen(Number(port), host, () => console.error(`listening on ${host}:${server.address().port}`));
process.once("SIGTERM", () => server.close());
