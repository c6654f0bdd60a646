// Receives an application's rings from RabbitMQ: java -cp JARS AmqpRings.java [APPLICATION]
import com.rabbitmq.client.*; // com.rabbitmq:amqp-client
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;

public class AmqpRings {
  static final Set<String> handled = new HashSet<>(); // in production: a table, written in the transaction of the work

  static void handle(Channel channel, Delivery delivery) throws Exception {
    AMQP.BasicProperties ring = delivery.getProperties();
    String payload = new String(delivery.getBody(), StandardCharsets.UTF_8);
    if (!handled.contains(ring.getMessageId())) { // a copy of a ring has the same message id
      System.out.println(ring.getCorrelationId() + " " + payload); // the work
      handled.add(ring.getMessageId());
    }
    if (ring.getReplyTo() != null) { // ack_timeout is set; a copy is answered too, because the first answer may be lost
      AMQP.BasicProperties answer = new AMQP.BasicProperties.Builder()
          .type("alarm.ack").correlationId(ring.getMessageId()).deliveryMode(2).build();
      channel.basicPublish("", ring.getReplyTo(), answer, new byte[0]);
      channel.waitForConfirmsOrDie(10_000);
    }
    channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
  }

  static void consume(ConnectionFactory factory, String application) throws Exception {
    String exchange = System.getenv().getOrDefault("CLOCKD_AMQP_EXCHANGE", "clock");
    String queue = exchange + "." + application;
    CompletableFuture<Exception> failure = new CompletableFuture<>();
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      channel.addShutdownListener(failure::complete); // also when the connection ends
      channel.confirmSelect();
      channel.basicQos(100);
      channel.exchangeDeclare(exchange, "direct", true); // as clockd does, so either may start first
      channel.queueDeclare(queue, true, false, false, Map.of("x-queue-type", "quorum"));
      channel.queueBind(queue, exchange, application);
      channel.basicConsume(queue, false, (tag, delivery) -> {
        try {
          handle(channel, delivery);
        } catch (Exception e) {
          failure.complete(e);
        }
      }, tag -> failure.complete(new IOException("the queue is deleted")));
      throw failure.get();
    }
  }

  public static void main(String[] args) throws Exception {
    String application = args.length > 0 ? args[0] : "shop";
    String url = System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/");
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(url.replaceFirst("/$", "")); // with the slash, this client asks for a virtual host without a name
    factory.setAutomaticRecoveryEnabled(false); // the loop below also outlasts a broker that is not up yet
    while (true) { // SIGTERM ends the JVM. RabbitMQ delivers a ring again if its acknowledgement is missing
      try {
        consume(factory, application);
      } catch (Exception e) {
        System.err.println("connection failed: " + e);
      }
      Thread.sleep(1000);
    }
  }
}
