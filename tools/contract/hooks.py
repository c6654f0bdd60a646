"""Lets schemathesis send and read lines of JSON, which it does not know."""

import json

import schemathesis

# A body of blanks is as an empty one, which most actions take.
@schemathesis.hook
def filter_case(ctx, case):
    body = case.body
    if isinstance(body, (bytes, str)):
        return bool(body.strip())
    return True


NDJSON = "application/x-ndjson"


@schemathesis.serializer(NDJSON)
def serialize(ctx, value):
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    lines = value if isinstance(value, list) else [value]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@schemathesis.deserializer(NDJSON)
def deserialize(ctx, response):
    return json.loads(response.text.partition("\n")[0])  # the contract is about a line
