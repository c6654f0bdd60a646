import io.github.clockd.*;

/** Receives the rings of the application shop from the stream, until SIGTERM. */
class Consume {
  public static void main(String[] args) {
    Client client = Client.builder().name("worker-7").build();
    Consumer consumer = client.consumer("shop", Consume::cancelOrder).concurrency(4).build();
    Runtime.getRuntime().addShutdownHook(new Thread(consumer::close));
    consumer.run();
  }

  static Answer cancelOrder(Ring ring) {
    System.out.println(ring.businessId() + " " + ring.payload()); // the work
    return Answer.ack(); // or Answer.release(delay).reason("no stock"), or Answer.bury()
  }
}
