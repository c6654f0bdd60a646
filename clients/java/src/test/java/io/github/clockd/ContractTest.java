package io.github.clockd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The contract that the clients in all languages have: clients/contract.json. */
class ContractTest {
  private static final JsonObject CONTRACT = contract();

  private static JsonObject contract() {
    try {
      return Json.parse(Files.readString(Path.of("../contract.json"))).getAsJsonObject();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static Stream<JsonObject> cases(String part) {
    return cases(CONTRACT.get(part));
  }

  private static Stream<JsonObject> cases(JsonElement array) {
    return StreamSupport.stream(array.getAsJsonArray().spliterator(), false)
        .map(JsonElement::getAsJsonObject);
  }

  /** Makes a test of each case. */
  private static Stream<DynamicTest> tests(Stream<JsonObject> cases, Consumer<JsonObject> test) {
    return cases.map(c -> dynamicTest(text(c, "name", c.toString()), () -> test.accept(c)));
  }

  private static String text(JsonObject c, String name, String otherwise) {
    return c.has(name) ? c.get(name).getAsString() : otherwise;
  }

  private static Duration duration(JsonObject c, String name) {
    return c.has(name) && !c.get(name).isJsonNull()
        ? Duration.ofNanos(c.get(name).getAsLong() * 1000)
        : null;
  }

  private static Instant instant(JsonObject c, String name) {
    return c.has(name) && !c.get(name).isJsonNull()
        ? Instant.EPOCH
            .plusNanos(0)
            .plus(Duration.of(c.get(name).getAsLong(), java.time.temporal.ChronoUnit.MICROS))
        : null;
  }

  private static Map<String, String> texts(JsonElement object) {
    Map<String, String> texts = new HashMap<>();
    if (object != null)
      object
          .getAsJsonObject()
          .entrySet()
          .forEach(e -> texts.put(e.getKey(), e.getValue().getAsString()));
    return texts;
  }

  @Test
  void segments() {
    var cases = CONTRACT.getAsJsonObject("segments");
    for (JsonElement id : cases.getAsJsonArray("ids")) {
      String segment = Calls.segment("business_id", id.getAsString());
      assertEquals(id.getAsString(), URLDecoder.decode(segment, StandardCharsets.UTF_8));
      for (JsonElement reserved : cases.getAsJsonArray("without"))
        assertFalse(segment.contains(reserved.getAsString()), segment);
    }
    cases(cases.get("same"))
        .forEach(
            c ->
                assertEquals(
                    text(c, "segment", ""), Calls.segment("business_id", text(c, "id", ""))));
  }

  @TestFactory
  Stream<DynamicTest> durations() {
    return tests(
        cases("durations"),
        c -> {
          String text = text(c, "text", "");
          if (c.get("us").isJsonNull())
            assertThrows(IllegalArgumentException.class, () -> Values.readDuration(text));
          else assertEquals(duration(c, "us"), Values.readDuration(text));
        });
  }

  private static Repeat repeat(JsonObject r) {
    var rule =
        r.has("cron") ? Repeat.cron(text(r, "cron", "")) : Repeat.every(duration(r, "every_us"));
    for (String name : r.keySet()) {
      JsonElement value = r.get(name);
      rule =
          switch (name) {
            case "time_zone" -> rule.timeZone(ZoneId.of(value.getAsString()));
            case "anchor_us" -> rule.anchor(instant(r, name));
            case "from_us" -> rule.from(instant(r, name));
            case "until_us" -> rule.until(instant(r, name));
            case "skip_dates" ->
                rule.skipDates(
                    List.of(LocalDate.parse(value.getAsJsonArray().get(0).getAsString())));
            case "times" -> rule.times(value.getAsLong());
            case "jitter_us" -> rule.jitter(duration(r, name));
            case "latest_after_us" -> rule.latestAfter(duration(r, name));
            case "missed" -> rule.missed(value.getAsString());
            case "missed_limit" -> rule.missedLimit(value.getAsInt());
            case "missed_window_us" -> rule.missedWindow(duration(r, name));
            case "overlap" -> rule.overlap(value.getAsString());
            case "pause_after" -> rule.pauseAfter(value.getAsInt());
            case "cron", "every_us" -> rule;
            default -> throw new AssertionError(name);
          };
    }
    return rule;
  }

  private static AlarmSpec spec(JsonObject s) {
    AlarmSpec spec;
    if (s.has("repeat")) spec = AlarmSpec.repeating(repeat(s.getAsJsonObject("repeat")));
    else if (s.has("delay_us")) spec = AlarmSpec.after(duration(s, "delay_us"));
    else if (s.has("ring_at_local"))
      spec =
          AlarmSpec.at(
              LocalDateTime.parse(text(s, "ring_at_local", "")),
              ZoneId.of(text(s, "time_zone", "")));
    else spec = AlarmSpec.at(instant(s, "ring_at_us"));
    for (String name : s.keySet()) {
      JsonElement value = s.get(name);
      spec =
          switch (name) {
            case "latest_ring_at_us" -> spec.latestRingAt(instant(s, name));
            case "payload" -> spec.payload(Payload.json(value.toString()));
            case "text" -> spec.payload(Payload.text(value.getAsString()));
            case "data_base64" ->
                spec.payload(Payload.bytes(Base64.getDecoder().decode(value.getAsString())));
            case "content_type" -> spec.contentType(value.getAsString());
            case "only_if" -> spec.onlyIf(condition(value));
            case "retry" -> spec.retry(retry(value.getAsJsonObject()));
            case "ack_timeout_us" -> spec.ackTimeout(duration(s, name));
            case "max_rings" -> spec.maxRings(value.getAsInt());
            case "priority" -> spec.priority(value.getAsInt());
            case "delivery" -> spec.atMostOnce();
            case "target" -> spec.target(value.getAsString());
            case "receiver" -> spec.receiver(receiver(value.getAsJsonObject()));
            case "traceparent" -> spec.traceparent(value.getAsString());
            case "repeat", "delay_us", "ring_at_us", "ring_at_local", "time_zone" -> spec;
            default -> throw new AssertionError(name);
          };
    }
    return spec;
  }

  private static Condition condition(JsonElement value) {
    if (value.getAsJsonPrimitive().isNumber()) return Condition.atGeneration(value.getAsLong());
    return switch (value.getAsString()) {
      case "absent" -> Condition.ABSENT;
      case "earlier" -> Condition.EARLIER;
      default -> Condition.LATER;
    };
  }

  private static Retry retry(JsonObject r) {
    return new Retry(
        duration(r, "initial_us"),
        r.get("factor").getAsDouble(),
        duration(r, "cap_us"),
        r.get("limit").getAsInt());
  }

  private static Map<String, Object> receiver(JsonObject r) {
    Map<String, Object> fields = new HashMap<>();
    r.entrySet()
        .forEach(
            e ->
                fields.put(
                    e.getKey(),
                    e.getValue().isJsonObject()
                        ? texts(e.getValue())
                        : e.getValue().getAsString()));
    return fields;
  }

  @TestFactory
  Stream<DynamicTest> sets() {
    return tests(
        cases("sets"),
        c -> {
          if (c.has("refused")) {
            var failed = assertThrows(ClockdException.class, () -> spec(c.getAsJsonObject("set")));
            assertEquals(text(c, "refused", ""), failed.field());
            return;
          }
          var request = Calls.set("shop", "x", spec(c.getAsJsonObject("set")));
          assertEquals(c.get("body"), Json.parse(request.body()));
          assertEquals(texts(c.get("headers")), request.headers());
          assertEquals(text(c, "repeat", "").toUpperCase(), request.repetition().name());
        });
  }

  @TestFactory
  Stream<DynamicTest> answers() {
    return tests(
        cases("answers"),
        c -> {
          Duration delay = duration(c, "delay_us");
          var answer =
              switch (text(c, "kind", "")) {
                case "ack" -> Answer.ack();
                case "release" -> delay == null ? Answer.release() : Answer.release(delay);
                case "bury" -> Answer.bury();
                default -> delay == null ? Answer.touch() : Answer.touch(delay);
              };
          if (c.has("reason")) answer = answer.reason(text(c, "reason", ""));
          if (c.has("by")) answer = answer.by(text(c, "by", ""));
          var request = Calls.answer("shop", "1.1.1", answer, "");
          assertEquals("/v1/applications/shop/rings/1.1.1/" + text(c, "kind", ""), request.path());
          assertEquals(c.get("body"), Json.parse(request.body()));
        });
  }

  /** Fails as the contract says. */
  private static ClockdException play(JsonObject failure, Calls.Request<?> request) {
    if (!failure.has("status")) {
      return Calls.broken(
          "http://service",
          failure.get("sent").getAsBoolean()
              ? new IOException("reset")
              : new ConnectException("refused"));
    }
    String retryAfter = texts(failure.get("headers")).getOrDefault("Retry-After", "");
    byte[] body = text(failure, "body", "").getBytes(StandardCharsets.UTF_8);
    return assertThrows(
        ClockdException.class,
        () ->
            Calls.read(
                request, new Calls.Response(failure.get("status").getAsInt(), retryAfter, body)));
  }

  @TestFactory
  Stream<DynamicTest> failures() {
    return tests(
        cases("failures"),
        c -> {
          var failed = play(c, Calls.cancel("shop", "x", null, null));
          assertEquals(c.get("again").getAsBoolean(), failed.again());
          assertEquals(c.get("sent").getAsBoolean(), failed.unconfirmed());
          var want = c.has("want") ? c.getAsJsonObject("want") : new JsonObject();
          assertEquals(want.has("status") ? want.get("status").getAsInt() : 0, failed.status());
          assertEquals(text(want, "code", ""), failed.code());
          assertEquals(text(want, "field", ""), failed.field());
          assertEquals(text(want, "detail", failed.detail()), failed.detail());
          assertEquals(
              want.has("retry_after_s") ? want.get("retry_after_s").getAsInt() : 0,
              failed.retryAfter().toSeconds());
          assertEquals(text(want, "alarm", ""), failed.alarm().map(Alarm::businessId).orElse(""));
          assertEquals(text(want, "text", failed.getMessage()), failed.getMessage());
        });
  }

  private static Map<String, Calls.Request<?>> calls() {
    var at = AlarmSpec.at(Instant.EPOCH);
    var after = AlarmSpec.after(Duration.ofMinutes(1));
    Map<String, Calls.Request<?>> calls = new TreeMap<>();
    calls.put("get", Calls.get("shop", "x"));
    calls.put("list", Calls.page("shop", Filter.ALL.page("")));
    calls.put("cancel", Calls.cancel("shop", "x", null, null));
    calls.put("ack", Calls.answer("shop", "1.1.1", Answer.ack(), ""));
    calls.put("release", Calls.answer("shop", "1.1.1", Answer.release(), ""));
    calls.put("bury", Calls.answer("shop", "1.1.1", Answer.bury(), ""));
    calls.put("touch", Calls.answer("shop", "1.1.1", Answer.touch(), ""));
    calls.put("set with ring_at", Calls.set("shop", "x", at));
    calls.put("set with delay", Calls.set("shop", "x", after));
    calls.put("set with delay, absent", Calls.set("shop", "x", after.onlyIf(Condition.ABSENT)));
    calls.put("batch with ring_at", Calls.batch("shop", List.of(Change.set("x", at))));
    calls.put(
        "batch with a delay",
        Calls.batch("shop", List.of(Change.set("x", at), Change.set("y", after))));
    calls.put("reserve", Calls.reserve("shop", 1, Duration.ofSeconds(20), Json::rings));
    return calls;
  }

  @TestFactory
  Stream<DynamicTest> repeats() {
    Map<String, String> repeats = texts(CONTRACT.get("repeats"));
    assertEquals(repeats.keySet(), calls().keySet());
    return tests(
        cases("failures"),
        c ->
            calls()
                .forEach(
                    (name, request) -> {
                      boolean again = c.get("again").getAsBoolean(),
                          sent = c.get("sent").getAsBoolean();
                      String repeat = repeats.get(name);
                      assertEquals(
                          again && (repeat.equals("always") || repeat.equals("unsent") && !sent),
                          request.mayRepeat(play(c, request)),
                          name);
                    }));
  }

  @TestFactory
  Stream<DynamicTest> waits() {
    return tests(
        cases("waits"),
        c -> {
          for (int i = 0; i < 100; i++) {
            Duration wait =
                Calls.backoff(
                    c.get("try").getAsInt(), Duration.ofSeconds(c.get("retry_after_s").getAsInt()));
            if (c.get("min_ms").isJsonNull()) assertNull(wait);
            else
              assertTrue(
                  wait.toMillis() >= c.get("min_ms").getAsLong()
                      && wait.toMillis() <= c.get("max_ms").getAsLong(),
                  wait.toString());
          }
        });
  }

  @TestFactory
  Stream<DynamicTest> retryAfter() {
    return tests(
        cases("retry_after"),
        c ->
            assertEquals(
                c.get("s").getAsLong(), Calls.readRetryAfter(text(c, "value", "")).toSeconds()));
  }

  @Test
  void retryAfterMayBeATime() {
    String in =
        DateTimeFormatter.RFC_1123_DATE_TIME.format(ZonedDateTime.now(ZoneOffset.UTC).plusHours(1));
    long seconds = Calls.readRetryAfter(in).toSeconds();
    assertTrue(seconds > 3590 && seconds <= 3600, in + ": " + seconds);
  }

  @TestFactory
  Stream<DynamicTest> events() {
    return tests(
        cases("events"),
        c -> {
          var reader =
              new EventReader(
                  new ByteArrayInputStream(text(c, "stream", "").getBytes(StandardCharsets.UTF_8)),
                  "");
          List<EventReader.Event> got = new ArrayList<>(), want = new ArrayList<>();
          try {
            for (EventReader.Event event; (event = reader.next()) != null; ) got.add(event);
          } catch (IOException e) {
            throw new AssertionError(e);
          }
          cases(c.get("events"))
              .forEach(
                  e ->
                      want.add(
                          new EventReader.Event(
                              text(e, "type", ""),
                              text(e, "id", ""),
                              e.get("data").isJsonNull() ? null : text(e, "data", ""))));
          assertEquals(want, got);
        });
  }

  @TestFactory
  Stream<DynamicTest> rings() {
    return tests(
        cases("rings"),
        c -> {
          if (c.get("want").isJsonNull()) {
            assertThrows(IllegalArgumentException.class, () -> Ring.fromJson(text(c, "json", "")));
            return;
          }
          var want = c.getAsJsonObject("want");
          assertEquals(ring(want), Ring.fromJson(text(c, "json", "")));
        });
  }

  private static Ring ring(JsonObject r) {
    Payload payload = Payload.NONE;
    if (r.has("payload")) payload = Payload.json(r.get("payload").toString());
    if (r.has("text")) payload = Payload.text(text(r, "text", ""));
    if (r.has("data_base64"))
      payload = Payload.bytes(Base64.getDecoder().decode(text(r, "data_base64", "")));
    Occurrence occurrence = null;
    if (r.has("occurrence")) {
      var o = r.getAsJsonObject("occurrence");
      occurrence =
          new Occurrence(
              o.get("number").getAsLong(),
              instant(o, "at_us"),
              instant(o, "previous_at_us"),
              instant(o, "next_at_us"));
    }
    return new Ring(
        text(r, "message_id", ""),
        text(r, "application", ""),
        text(r, "business_id", ""),
        r.get("generation").getAsLong(),
        r.get("ring_no").getAsLong(),
        r.get("retry_times").getAsLong(),
        instant(r, "ring_at_us"),
        instant(r, "rung_at_us"),
        text(r, "claim_id", ""),
        duration(r, "ack_timeout_us"),
        text(r, "content_type", ""),
        text(r, "traceparent", ""),
        payload,
        occurrence);
  }

  @TestFactory
  Stream<DynamicTest> secrets() {
    return tests(
        cases(CONTRACT.getAsJsonObject("webhooks").get("secrets")),
        c -> {
          String[] secrets = secrets(c.get("secrets"));
          if (c.get("valid").getAsBoolean()) new Verifier(secrets);
          else assertThrows(IllegalArgumentException.class, () -> new Verifier(secrets));
        });
  }

  private static String[] secrets(JsonElement array) {
    return StreamSupport.stream(array.getAsJsonArray().spliterator(), false)
        .map(JsonElement::getAsString)
        .toArray(String[]::new);
  }

  @TestFactory
  Stream<DynamicTest> webhooks() {
    var common = CONTRACT.getAsJsonObject("webhooks");
    return tests(
        cases(common.get("requests")),
        c -> {
          String[] secrets =
              c.has("secrets")
                  ? secrets(c.get("secrets"))
                  : new String[] {text(common, "published", "")};
          var verifier =
              new Verifier(
                  Duration.ofSeconds(c.has("tolerance_s") ? c.get("tolerance_s").getAsLong() : 300),
                  secrets);
          Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
          headers.putAll(texts(c.has("headers") ? c.get("headers") : common.get("headers")));
          headers.putAll(texts(c.get("changed")));
          byte[] body = text(c, "body", text(common, "body", "")).getBytes(StandardCharsets.UTF_8);
          String fault = "valid";
          try {
            verifier.verify(headers::get, body, Instant.ofEpochSecond(c.get("now_s").getAsLong()));
          } catch (WebhookException e) {
            fault = e.fault().name().toLowerCase();
            assertFalse(e.getMessage().contains("whsec_") || e.getMessage().contains("v1,"));
          }
          assertEquals(text(c, "want", ""), fault);
        });
  }

  @Test
  void payloadThatIsNoJsonIsRefused() {
    for (String wrong : List.of("", "{", "{a:1}", "1 2", "'x'", "NaN", "\u0001")) {
      assertThrows(JsonParseException.class, () -> Json.parse(wrong), wrong);
      var failed =
          assertThrows(
              ClockdException.class,
              () ->
                  Calls.set("shop", "x", AlarmSpec.at(Instant.EPOCH).payload(Payload.json(wrong))),
              wrong);
      assertEquals("payload", failed.field());
    }
  }
}
