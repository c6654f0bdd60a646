import io.github.clockd.*;
import java.time.Duration;
import java.time.Instant;

/** Sets an alarm, and cancels it. */
class SetAndCancel {
  public static void main(String[] args) {
    Client client = Client.create();
    Instant deadline = Instant.now().plus(Duration.ofMinutes(30));
    AlarmSpec spec = AlarmSpec.at(deadline).payload(Payload.json("{\"order\": 4711}"));
    Alarm alarm = client.set("shop", "order-4711", spec);
    System.out.println("rings at " + alarm.ringAt());

    try {
      System.out.println(client.cancel("shop", "order-4711").state());
    } catch (ClockdException failed) {
      if (!failed.code().equals("already_rung")) throw failed;
      System.out.println("too late: it has rung at " + failed.alarm().map(Alarm::rungAt));
    }
  }
}
