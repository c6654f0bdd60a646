// Receives rings as signed requests.
import { createServer } from "node:http";
import { Verifier } from "@clockd/client";

const verifier = new Verifier(process.env.SECRET); // "clockd application set" printed it
const seen = new Set(); // in production: a table, written in the transaction of the work

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts);
  let id;
  try {
    id = verifier.verify(request.headers, body);
  } catch (error) {
    response.writeHead(401).end(error.message);
    return;
  }
  if (!seen.has(id)) {
    console.log(decodeURIComponent(request.headers["x-clockd-business-id"]), body.toString()); // the work
    seen.add(id);
  }
  response.writeHead(204).end();
});
server.listen(Number(process.env.PORT ?? 8081), "127.0.0.1", () =>
  console.log("listening on port", server.address().port),
);
