"""Serves the method shop.v1.Alarms/Ring over gRPC, which clockd calls for each ring.

With the generated code of your own service it is shorter.
usage: python3 grpc_server.py, with LISTEN=host:port in the environment for another address than 127.0.0.1:8081
"""
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import StringValue

seen = set()  # in production: a table, written in the transaction of the work


def ring(payload, context):
    """Handles a ring. The message is the payload of the alarm."""
    metadata = dict(context.invocation_metadata())
    if metadata["x-clockd-message-id"] not in seen:
        print(unquote(metadata["x-clockd-business-id"]), payload.value, flush=True)
        seen.add(metadata["x-clockd-message-id"])
    return Empty()  # the ring counts as delivered and acknowledged


server = grpc.server(ThreadPoolExecutor(16))
server.add_generic_rpc_handlers([
    grpc.method_handlers_generic_handler("shop.v1.Alarms", {
        "Ring": grpc.unary_unary_rpc_method_handler(
            ring, request_deserializer=StringValue.FromString, response_serializer=Empty.SerializeToString),
    }),
])
address = os.environ.get("LISTEN", "127.0.0.1:8081")
port = server.add_insecure_port(address)
server.start()
print(f"listening on {address.rsplit(':', 1)[0]}:{port}", file=sys.stderr)
signal.signal(signal.SIGTERM, lambda *_: server.stop(grace=5))
try:
    server.wait_for_termination()
except KeyboardInterrupt:
    server.stop(grace=5).wait()
