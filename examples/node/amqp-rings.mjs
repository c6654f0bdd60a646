// Receives an application's rings from RabbitMQ: node amqp-rings.mjs [APPLICATION]
import { setTimeout as sleep } from "node:timers/promises";
import amqp from "amqplib"; // npm install amqplib

const application = process.argv[2] ?? "shop";
const url = process.env.AMQP_URL ?? "amqp://guest:guest@127.0.0.1:5672/";
const exchange = process.env.CLOCKD_AMQP_EXCHANGE ?? "clock";
const queue = `${exchange}.${application}`;
const handled = new Set(); // in production: a table, written in the transaction of the work
let connection;

async function handle(channel, ring) {
  if (ring === null) throw new Error("the queue is deleted");
  const { messageId, correlationId, replyTo } = ring.properties;
  if (!handled.has(messageId)) { // a copy of a ring has the same message id
    console.log(correlationId, ring.content.toString()); // the work
    handled.add(messageId);
  }
  if (replyTo) { // the alarm has ack_timeout; a copy is answered too, because the first answer may be lost
    const answer = { type: "alarm.ack", correlationId: messageId, persistent: true };
    await new Promise((confirmed, failed) => {
      channel.sendToQueue(replyTo, Buffer.alloc(0), answer, (error) => (error ? failed(error) : confirmed()));
    });
  }
  channel.ack(ring);
}

async function consume() {
  connection = await amqp.connect(url);
  try {
    const channel = await connection.createConfirmChannel();
    await channel.prefetch(100);
    await channel.assertExchange(exchange, "direct", { durable: true }); // as clockd does, so either may start first
    await channel.assertQueue(queue, { durable: true, arguments: { "x-queue-type": "quorum" } });
    await channel.bindQueue(queue, exchange, application);
    await new Promise((_, failed) => {
      for (const source of [connection, channel]) {
        source.on("error", failed);
        source.on("close", () => failed(new Error("closed")));
      }
      channel.consume(queue, (ring) => handle(channel, ring).catch(failed)).catch(failed);
    });
  } finally {
    await connection.close().catch(() => {}); // it may be closed already
  }
}

let ending = false;
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, async () => {
    ending = true;
    await connection?.close().catch(() => {});
    process.exit();
  });
}
while (!ending) {
  await consume().catch((error) => ending || console.error("connection failed:", error.message || error));
  await sleep(1000);
}
