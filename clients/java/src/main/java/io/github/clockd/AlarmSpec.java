package io.github.clockd;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonPrimitive;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;

/**
 * What an alarm is to be. Begin with {@link #after}, {@link #at} or {@link #repeating}. Each method
 * returns a changed copy.
 */
public final class AlarmSpec {
  private final JsonObject body; // without the payload
  private final Payload payload;
  private final Condition condition;
  private final String traceparent;

  private AlarmSpec(JsonObject body, Payload payload, Condition condition, String traceparent) {
    this.body = body;
    this.payload = payload;
    this.condition = condition;
    this.traceparent = traceparent;
  }

  private static AlarmSpec of(String name, JsonElement value) {
    return new AlarmSpec(new JsonObject(), Payload.NONE, null, null).with(name, value);
  }

  private AlarmSpec with(String name, JsonElement value) {
    var changed = body.deepCopy();
    changed.add(name, value);
    return new AlarmSpec(changed, payload, condition, traceparent);
  }

  /** An alarm that rings after a delay, which counts from the arrival of the set at the service. */
  public static AlarmSpec after(Duration delay) {
    return of("delay", new JsonPrimitive(Values.write("delay", delay)));
  }

  /** An alarm that rings at a time. A time in the past rings at once. */
  public static AlarmSpec at(Instant time) {
    return of("ring_at", new JsonPrimitive(Values.write("ring_at", time)));
  }

  /** An alarm that rings at a local time, whose instant the service finds. */
  public static AlarmSpec at(LocalDateTime time, ZoneId zone) {
    String name = zone.equals(ZoneOffset.UTC) ? "UTC" : zone.getId();
    return of("ring_at", new JsonPrimitive(localTime(time)))
        .with("time_zone", new JsonPrimitive(name));
  }

  /** Returns a time with milliseconds, rounded up so that no alarm rings early. */
  private static String localTime(LocalDateTime time) {
    var up = time.plusNanos(999_999).truncatedTo(ChronoUnit.MILLIS);
    String pattern = "uuuu-MM-dd'T'HH:mm:ss" + (up.getNano() == 0 ? "" : ".SSS");
    return up.format(DateTimeFormatter.ofPattern(pattern));
  }

  /** An alarm that rings again. */
  public static AlarmSpec repeating(Repeat rule) {
    return of("repeat", rule.body());
  }

  /**
   * Last time to ring, after which the alarm expires; not of a repeating alarm. Default: however
   * late.
   */
  public AlarmSpec latestRingAt(Instant time) {
    return with("latest_ring_at", new JsonPrimitive(Values.write("latest_ring_at", time)));
  }

  /** What the alarm delivers; default: nothing. */
  public AlarmSpec payload(Payload given) {
    return new AlarmSpec(body, given, condition, traceparent);
  }

  /** Type of the payload; default: by its kind. */
  public AlarmSpec contentType(String type) {
    return with("content_type", new JsonPrimitive(type));
  }

  /** Condition of the set; default: none. */
  public AlarmSpec onlyIf(Condition given) {
    return new AlarmSpec(body, payload, given, traceparent);
  }

  /** Policy for rings that fail. */
  public AlarmSpec retry(Retry policy) {
    return with("retry", policy.body());
  }

  /**
   * Time for an answer to a ring, 1 s to 24 h; zero: none is needed. Default: as the application's
   * settings say.
   */
  public AlarmSpec ackTimeout(Duration time) {
    return with("ack_timeout", new JsonPrimitive(Values.write("ack_timeout", time)));
  }

  /** Rings without an answer until the alarm is dead; default 10. */
  public AlarmSpec maxRings(int rings) {
    return with("max_rings", new JsonPrimitive(rings));
  }

  /** 0 to 9; among alarms due at the same instant the higher rings first. */
  public AlarmSpec priority(int priority) {
    return with("priority", new JsonPrimitive(priority));
  }

  /** A ring with an unknown outcome is not repeated. Default: it is, under the same message id. */
  public AlarmSpec atMostOnce() {
    return with("delivery", new JsonPrimitive("at_most_once"));
  }

  /**
   * Target or destination, such as webhook/refunds, if the settings allow it; default: the
   * application's.
   */
  public AlarmSpec target(String target) {
    return with("target", new JsonPrimitive(target));
  }

  /**
   * Fields of the receiver, texts and maps of texts, where the settings allow them. They need a
   * target.
   */
  public AlarmSpec receiver(Map<String, ?> fields) {
    try {
      return with("receiver", new Gson().toJsonTree(fields));
    } catch (RuntimeException e) {
      throw ClockdException.invalid("receiver", "the receiver cannot be JSON: " + e.getMessage());
    }
  }

  /** W3C trace context, which the rings carry; not in a batch. */
  public AlarmSpec traceparent(String given) {
    if (!given.matches("[ -~]*")) {
      throw ClockdException.invalid(
          "traceparent", "traceparent has a character that no header has");
    }
    return new AlarmSpec(body, payload, condition, given);
  }

  /**
   * Reports whether a second effect of the set does no harm. Another delay would move the alarm.
   */
  boolean isRepeatable() {
    return !body.has("delay") || condition == Condition.ABSENT;
  }

  boolean isOnGeneration() {
    return condition != null && condition.name == null;
  }

  /** Returns the headers of a single set. */
  Map<String, String> headers() {
    var headers = new HashMap<String, String>();
    if (isOnGeneration()) headers.put("If-Match", "\"" + condition.generation + "\"");
    if (traceparent != null) headers.put("Traceparent", traceparent);
    return headers;
  }

  /** Returns the set as JSON. The id is null in a set whose id is in the path. */
  String body(String businessId) {
    var whole = new JsonObject();
    if (businessId != null) whole.addProperty("business_id", businessId);
    body.entrySet().forEach(member -> whole.add(member.getKey(), member.getValue()));
    if (condition != null && condition.name != null) whole.addProperty("if", condition.name);
    switch (payload.kind()) {
      case JSON -> {
        whole.add("payload", null); // the last member
        String head = whole.toString();
        return head.substring(0, head.length() - "null}".length()) + json() + "}";
      }
      case TEXT -> whole.addProperty("text", payload.toString());
      case BYTES ->
          whole.addProperty("base64", Base64.getEncoder().encodeToString(payload.toBytes()));
      case NONE -> {}
    }
    return whole.toString();
  }

  /** Returns the payload as it was given, which no parser has changed. */
  private String json() {
    try {
      Json.parse(payload.toString());
      return payload.toString();
    } catch (JsonParseException e) {
      throw ClockdException.invalid("payload", "the payload is no JSON: " + e.getMessage());
    }
  }

  /** Returns the set without its payload and its receiver, which may have secrets. */
  @Override
  public String toString() {
    var shown = body.deepCopy();
    shown.remove("receiver");
    return shown.toString();
  }
}
