"""Receives the rings of an application as signed requests, and prints them.

usage: SECRET=whsec_... python3 webhook.py, with LISTEN=host:port in the environment for another address than 127.0.0.1:8081
"""
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["SECRET"])  # "clockd application set" printed it
seen = set()  # in production: a table, written in the transaction of the work


class Rings(BaseHTTPRequestHandler):
    error_message_format, error_content_type = "%(message)s", "text/plain"  # clockd shows it in last_error
    protocol_version = "HTTP/1.1"  # clockd keeps the connection

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            webhook.verify(body, dict(self.headers.items()))
        except WebhookVerificationError as failure:
            print("signature refused: is SECRET the one that clockd printed?", failure, file=sys.stderr)
            self.send_error(401, "signature refused")
            return
        if self.headers["webhook-id"] not in seen:
            print(unquote(self.headers["x-clockd-business-id"]), body.decode(), flush=True)
            seen.add(self.headers["webhook-id"])
        self.send_response(204)  # the ring counts as delivered and acknowledged
        self.end_headers()

    def log_message(self, *_):
        """Prints no line for each request."""


host, port = os.environ.get("LISTEN", "127.0.0.1:8081").rsplit(":", 1)
server = ThreadingHTTPServer((host, int(port)), Rings)
print("listening on %s:%d" % server.server_address, file=sys.stderr)
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
try:
    server.serve_forever()
except KeyboardInterrupt:
    pass
