import io.github.clockd.*;
import java.time.Duration;
import java.time.ZoneId;
import java.util.List;

/** Sets alarms that ring again, several at once. */
class Repeating {
  public static void main(String[] args) {
    Repeat workdays =
        Repeat.cron("0 9 * * MON-FRI").timeZone(ZoneId.of("Europe/Berlin")).missed("skip");
    List<Change> changes =
        List.of(
            Change.set("daily", AlarmSpec.repeating(workdays).ackTimeout(Duration.ofMinutes(5))),
            Change.set("heartbeat", AlarmSpec.repeating(Repeat.every(Duration.ofSeconds(30)))),
            Change.cancel("weekly"));
    for (Result result : Client.create().batch("reports", changes)) {
      Object outcome = result.error() == null ? result.state() : result.error();
      System.out.println(result.businessId() + " " + outcome);
    }
  }
}
