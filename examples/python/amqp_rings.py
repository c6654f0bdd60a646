"""Receives an application's rings from RabbitMQ: python3 amqp_rings.py [APPLICATION]"""

import os
import signal
import sys
import time

import pika  # pip install pika

application = sys.argv[1] if len(sys.argv) > 1 else "shop"
url = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
exchange = os.environ.get("CLOCKD_AMQP_EXCHANGE", "clock")
queue = exchange + "." + application
handled = set()  # in production: a table, written in the transaction of the work


def handle(channel, method, ring, payload):
    if ring.message_id not in handled:  # a copy of a ring has the same message id
        print(ring.correlation_id, payload.decode(errors="replace"), flush=True)  # the work
        handled.add(ring.message_id)
    if ring.reply_to:  # the alarm has ack_timeout; a copy is answered too, because the first answer may be lost
        answer = pika.BasicProperties(type="alarm.ack", correlation_id=ring.message_id, delivery_mode=2)
        channel.basic_publish("", ring.reply_to, b"", answer)  # returns after the confirm, or raises
    channel.basic_ack(method.delivery_tag)


def consume():
    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=100)
        channel.exchange_declare(exchange, "direct", durable=True)  # as clockd does, so either may start first
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_bind(queue, exchange, routing_key=application)
        channel.basic_consume(queue, handle)
        channel.start_consuming()  # returns if the queue is deleted
    finally:
        if connection.is_open:
            connection.close()


# RabbitMQ delivers a ring again if the program ends before its acknowledgement.
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: sys.exit())
while True:
    try:
        consume()
    except (pika.exceptions.AMQPError, OSError) as error:
        print(f"connection failed: {error!r}", file=sys.stderr)
    time.sleep(1)
