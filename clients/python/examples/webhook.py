"""Receives rings as signed requests."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import clockd

verifier = clockd.Verifier(os.environ["SECRET"])  # "clockd application set" printed it
seen: set[str] = set()  # in production: a table, written in the transaction of the work


class Rings(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # clockd keeps the connection

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            message_id = verifier.verify(self.headers, body)
        except clockd.WebhookError as error:
            self.send_error(401, str(error))
            return
        if message_id not in seen:
            print(unquote(self.headers["x-clockd-business-id"]), body.decode(), flush=True)  # the work
            seen.add(message_id)
        self.send_response(204)
        self.end_headers()


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8081"))), Rings)
print("listening on port", server.server_port, flush=True)
server.serve_forever()
