import io.github.clockd.*;

/** Reserves the rings of the application mail, whose target is pull, until SIGTERM. */
class Worker {
  public static void main(String[] args) {
    Consumer worker =
        Client.create().consumer("mail", Worker::sendMail).pull().concurrency(16).build();
    Runtime.getRuntime().addShutdownHook(new Thread(worker::close));
    worker.run();
  }

  static Answer sendMail(Ring ring) {
    System.out.println(ring.businessId() + " " + ring.payload()); // the work
    return Answer.ack();
  }
}
