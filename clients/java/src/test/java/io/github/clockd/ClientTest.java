package io.github.clockd;

import static io.github.clockd.Service.SERVER;
import static io.github.clockd.Service.asked;
import static io.github.clockd.Service.busy;
import static io.github.clockd.Service.client;
import static io.github.clockd.Service.faulty;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Calls to a real clockd, also with faults of the connection. */
class ClientTest {
  private static final Instant LATER = Instant.parse("2091-01-01T00:00:00Z");
  private static final ZoneId BERLIN = ZoneId.of("Europe/Berlin");

  private final String app = Service.application();

  /** Returns the failure of a call, which has the code. */
  private static ClockdException refused(Supplier<?> call, String code) {
    var failed = assertThrows(ClockdException.class, call::get);
    assertEquals(code, failed.code(), failed.getMessage());
    return failed;
  }

  @Test
  void alarmIsSetReadMovedAndCancelled() {
    String id = "a/b%+ ü..";
    var spec =
        AlarmSpec.at(LATER)
            .payload(Payload.json("{\"order\": 4711}"))
            .ackTimeout(Duration.ofSeconds(90))
            .priority(7);
    Alarm alarm = client().set(app, id, spec);
    assertEquals(
        List.of(app, id, "scheduled", 1L),
        List.of(alarm.application(), alarm.businessId(), alarm.state(), alarm.generation()));
    assertEquals(
        List.of(LATER, Duration.ofSeconds(90), Payload.json("{\"order\":4711}")),
        List.of(alarm.ringAt(), alarm.ackTimeout(), alarm.payload()));
    assertTrue(alarm.raw().contains("\"priority\":7"), alarm.raw());
    Alarm moved =
        client().set(app, id, AlarmSpec.at(LATER.plusNanos(1)).onlyIf(Condition.atGeneration(1)));
    assertEquals(2, moved.generation());
    assertEquals(LATER.plusMillis(1), moved.ringAt());
    assertEquals(moved.ringAt(), client().get(app, id).ringAt());
    var failed = refused(() -> client().cancel(app, id, 1), "condition_failed");
    assertEquals(412, failed.status());
    assertEquals(2, failed.alarm().orElseThrow().generation());
    assertEquals("cancelled", client().cancel(app, id, "closed").state());
    assertEquals("cancelled", client().cancel(app, id).state());
  }

  @ParameterizedTest
  @ValueSource(strings = {"...", "😀?#&", "%2F", "a//b", "a+b c"})
  void everyIdIsOneSegment(String id) {
    assertEquals(id, client().set(app, id, AlarmSpec.at(LATER)).businessId());
    refused(() -> client().get(app, ".."), "invalid_business_id");
    refused(() -> client().get(app, "\ud800"), "invalid_value");
  }

  @Test
  void payloadReturnsAsItWasSet() {
    for (Payload p :
        List.of(
            Payload.NONE,
            Payload.json("null"),
            Payload.json("[\"ü<\",1.50,12345678901234567890]"),
            Payload.json("[".repeat(400) + "]".repeat(400)),
            Payload.text(""),
            Payload.bytes(new byte[] {0, -1, 10}))) {
      assertEquals(
          p, client().set(app, "x", AlarmSpec.after(Duration.ofHours(1)).payload(p)).payload());
    }
  }

  @Test
  void repeatingAlarmHasItsOccurrence() {
    var rule =
        Repeat.cron("0 9 * * MON")
            .timeZone(BERLIN)
            .from(LATER)
            .skipDates(List.of(LocalDate.parse("2091-01-08")));
    var want =
        new Occurrence(
            1, Instant.parse("2091-01-01T08:00:00Z"), null, Instant.parse("2091-01-15T08:00:00Z"));
    assertEquals(want, client().set(app, "x", AlarmSpec.repeating(rule)).occurrence());
  }

  @Test
  void localTimeHasItsInstant() {
    var spec = AlarmSpec.at(LocalDateTime.parse("2090-07-31T18:30"), BERLIN);
    assertEquals(Instant.parse("2090-07-31T16:30:00Z"), client().set(app, "x", spec).ringAt());
  }

  @Test
  void faultsOfTheInputNameTheField() {
    var failed =
        refused(() -> client().set(app, "x", AlarmSpec.at(LATER).priority(10)), "out_of_range");
    assertEquals(
        List.of("priority", 422, false),
        List.of(failed.field(), failed.status(), failed.unconfirmed()));
    assertEquals(
        "delay",
        refused(() -> AlarmSpec.after(Duration.ofSeconds(Long.MAX_VALUE)), "invalid_value")
            .field());
    assertEquals("ring_at", refused(() -> AlarmSpec.at(Instant.MAX), "invalid_value").field());
    assertEquals("text", refused(() -> Payload.text("a\ud800"), "invalid_value").field());
    assertEquals("prefix", refused(() -> Filter.ALL.prefix("\ud800"), "invalid_value").field());
    assertEquals("application", refused(() -> client().get("", "x"), "invalid_value").field());
    refused(() -> client().batch(app, List.of(Change.cancel("\ud800"))), "invalid_value");
    refused(() -> AlarmSpec.at(LATER).receiver(Map.of("key", Double.NaN)), "invalid_value");
    assertEquals(404, refused(() -> client().get(app, "x"), "unknown_alarm").status());
  }

  @Test
  void requestHasThePayloadAsItWasGiven() {
    String given = "{\"a\": 1.50,\"a\":2}";
    var spec = AlarmSpec.at(Instant.EPOCH).payload(Payload.json(given)).priority(3);
    assertEquals("{\"ring_at\":0,\"priority\":3,\"payload\":" + given + "}", spec.body(null));
  }

  @Test
  void textOfAnAlarmHasNoSecrets() {
    var spec =
        AlarmSpec.at(Instant.EPOCH).receiver(Map.of("headers", Map.of("authorization", "x")));
    assertEquals("{\"ring_at\":0}", spec.toString());
  }

  @Test
  void longTextIsNoDuration() {
    assertThrows(RuntimeException.class, () -> Values.readDuration("1h".repeat(100_000) + "x"));
    assertThrows(RuntimeException.class, () -> Values.readDuration(""));
  }

  @Test
  void wrongOptionsAreRefused() {
    for (Client.Builder wrong :
        List.of(
            Client.builder().server("localhost:8080"),
            Client.builder().server("ftp://x"),
            Client.builder().server("http://"),
            Client.builder().server("http://me:secret@x"),
            Client.builder().server("http://x?a"),
            Client.builder().token("a\nb"),
            Client.builder().tries(0),
            Client.builder().timeout(Duration.ZERO))) {
      refused(wrong::build, "invalid_value");
    }
  }

  @Test
  void batchReturnsSetsThenCancels() {
    var spec = AlarmSpec.after(Duration.ofHours(1));
    List<Result> results =
        client()
            .batch(
                app,
                List.of(
                    Change.cancel("a"),
                    Change.set("a", spec.payload(Payload.text("x"))),
                    Change.set("b", spec.priority(-1)),
                    Change.cancel("missing")));
    assertEquals(
        List.of("a 201 scheduled", "b 422 null", "a 200 cancelled", "missing 404 null"),
        results.stream().map(r -> r.businessId() + " " + r.status() + " " + r.state()).toList());
    assertEquals("priority", results.get(1).error().field());
    assertEquals("unknown_alarm", results.get(3).error().code());
    assertEquals(List.of(), client().batch(app, List.of()));
    refused(
        () -> client().batch(app, List.of(Change.set("x", spec.onlyIf(Condition.atGeneration(1))))),
        "invalid_value");
    for (Change wrong :
        List.of(
            Change.set("", spec), Change.cancel(""), Change.set("x", spec.traceparent("00-1")))) {
      refused(() -> client().batch(app, List.of(wrong)), "invalid_value");
    }
  }

  @Test
  void alarmsAreListedOverPages() {
    client()
        .batch(
            app,
            IntStream.range(0, 1000)
                .mapToObj(n -> Change.set(String.format("order-%04d", n), AlarmSpec.at(LATER)))
                .toList());
    client()
        .batch(
            app,
            List.of(
                Change.set("x", AlarmSpec.after(Duration.ofHours(1))),
                Change.cancel("order-0007")));
    assertEquals(1001, ids(Filter.ALL).size());
    assertEquals("order-0000", ids(Filter.ALL).get(0));
    assertEquals(
        List.of("order-0007"), ids(Filter.ALL.prefix("order-000").states("cancelled", "dead")));
    assertEquals(List.of("x"), ids(Filter.ALL.dueBefore(Instant.now().plus(Duration.ofHours(2)))));
  }

  private List<String> ids(Filter filter) {
    List<String> ids = new ArrayList<>();
    client().alarms(app, filter).forEach(alarm -> ids.add(alarm.businessId()));
    return ids;
  }

  static Stream<Object> passingFaults() {
    return Stream.of(
        "cut",
        "lose",
        "half",
        busy("unavailable"),
        busy("unconfirmed"),
        Service.response(502, "<html>", Map.of()));
  }

  @ParameterizedTest
  @MethodSource("passingFaults")
  void callsAreRepeatedAfterFaultsThatPass(Object fault) {
    String url = faulty(fault, fault);
    var client = Service.builder(url).build();
    assertEquals(1, client.set(app, "x", AlarmSpec.at(LATER)).generation());
    assertEquals(Collections.nCopies(3, "PUT /v1/applications/" + app + "/alarms/x"), asked(url));
    assertEquals("cancelled", client.cancel(app, "x").state());
  }

  static Stream<Object> delayFaults() {
    return Stream.of("cut", "lose", busy("unavailable"));
  }

  @ParameterizedTest
  @MethodSource("delayFaults")
  void setWithADelayIsRepeatedOnlyIfAbsent(Object fault) {
    var spec = AlarmSpec.after(Duration.ofHours(1));
    boolean isBusy = fault instanceof Map;
    String url = faulty(fault);
    var failed =
        refused(
            () -> Service.builder(url).build().set(app, "x", spec), isBusy ? "unavailable" : "");
    assertEquals(!isBusy, failed.unconfirmed());
    assertEquals(1, asked(url).size());
    String other = faulty(fault);
    Supplier<Alarm> again =
        () -> Service.builder(other).build().set(app, "y", spec.onlyIf(Condition.ABSENT));
    if (fault.equals("lose")) { // the first try has set the alarm
      var refused = refused(again, "condition_failed");
      assertTrue(refused.unconfirmed());
      assertEquals(1, refused.alarm().orElseThrow().generation());
    } else {
      assertEquals(1, again.get().generation());
    }
    assertEquals(2, asked(other).size());
  }

  @Test
  void callEndsWithItsTime() {
    String url = faulty("stall", "stall");
    var client = Service.builder(url).timeout(Duration.ofMillis(300)).build();
    assertTrue(refused(() -> client.set(app, "x", AlarmSpec.at(LATER)), "").unconfirmed());
    assertTrue(asked(url).size() <= 1); // none if the machine is too busy
  }

  @Test
  void callEndsWithAnInterrupt() throws InterruptedException {
    String url = faulty("stall");
    AtomicReference<ClockdException> failed = new AtomicReference<>();
    var thread =
        new Thread(
            () -> {
              failed.set(
                  refused(
                      () -> Service.builder(url).build().set(app, "x", AlarmSpec.at(LATER)), ""));
              assertTrue(Thread.currentThread().isInterrupted());
            });
    thread.start();
    while (asked(url).isEmpty()) Thread.onSpinWait();
    thread.interrupt();
    thread.join();
    assertTrue(failed.get().unconfirmed());
    assertFalse(failed.get().again());
  }

  @Test
  void tryThatIsTooSlowIsRepeated() {
    String url = faulty("stall");
    assertEquals(
        1,
        Service.builder(url)
            .tryTimeout(Duration.ofSeconds(1))
            .build()
            .set(app, "x", AlarmSpec.at(LATER))
            .generation());
    assertTrue(asked(url).size() >= 2); // more if the machine is too busy
  }

  @Test
  void serverThatCannotBeReachedHasChangedNothing() throws IOException {
    int port;
    try (var closed = new ServerSocket(0)) {
      port = closed.getLocalPort();
    }
    var client = Service.builder("http://127.0.0.1:" + port).tries(2).build();
    var failed = refused(() -> client.set(app, "x", AlarmSpec.after(Duration.ZERO)), "");
    assertEquals(
        List.of(0, false, true), List.of(failed.status(), failed.unconfirmed(), failed.again()));
  }

  @Test
  void responseThatIsTooLargeIsRefused() {
    String url = faulty(Service.response(200, "x".repeat(17 << 20), Map.of()));
    var failed = refused(() -> Service.builder(url).build().get(app, "x"), "");
    assertTrue(failed.getMessage().contains("more than 16777216 bytes"), failed.getMessage());
  }

  @Test
  void answerWhoseResponseWasLostIsNoFailure() {
    refused(() -> client().ack(app, "1.1.1"), "unknown_ring");
    client().set(app, "x", AlarmSpec.after(Duration.ZERO).ackTimeout(Duration.ofHours(1)));
    AtomicReference<Ring> ring = new AtomicReference<>();
    AtomicReference<Consumer> consumer = new AtomicReference<>();
    consumer.set(
        client()
            .consumer(
                app,
                r -> {
                  ring.set(r);
                  consumer.get().stop();
                  return Answer.NONE;
                })
            .build());
    consumer.get().run();
    String url = faulty("lose"), id = ring.get().messageId();
    Alarm alarm = Service.builder(url).build().answer(app, id, Answer.bury().reason("broken"));
    assertEquals(
        List.of("dead", "bury", "worker-7", "buried: broken"),
        List.of(alarm.state(), alarm.answer(), alarm.answeredBy(), alarm.lastError()));
    assertEquals(2, asked(url).size());
    assertTrue(
        refused(() -> Service.builder(SERVER).build().ack(app, id), "stale_ring")
            .alarm()
            .isPresent());
  }
}
