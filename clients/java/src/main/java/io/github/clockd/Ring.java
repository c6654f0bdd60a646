package io.github.clockd;

import com.google.gson.JsonElement;
import java.time.Duration;
import java.time.Instant;

/**
 * One ring of an alarm.
 *
 * @param messageId the same for all copies of one ring; no other ring has it
 * @param application its application
 * @param businessId id of the alarm in the application
 * @param generation version of the alarm
 * @param ringNo number of the ring in its generation, from 1
 * @param retryTimes failed tries of the alarm
 * @param ringAt time to ring
 * @param rungAt when the service began this try
 * @param claimId transaction of the service; copies of a ring have different ones
 * @param ackTimeout time for the answer; null: the ring needs no answer
 * @param contentType type of the payload
 * @param traceparent W3C trace context of the set; empty: none
 * @param payload what the alarm delivers
 * @param occurrence occurrence that rings; null: the alarm rings once, or a person triggered the
 *     ring
 */
public record Ring(
    String messageId,
    String application,
    String businessId,
    long generation,
    long ringNo,
    long retryTimes,
    Instant ringAt,
    Instant rungAt,
    String claimId,
    Duration ackTimeout,
    String contentType,
    String traceparent,
    Payload payload,
    Occurrence occurrence) {

  /**
   * Reads the body of a webhook with {@code body=envelope}. Other texts are an
   * IllegalArgumentException.
   */
  public static Ring fromJson(String json) {
    try {
      return read(Json.parse(json));
    } catch (RuntimeException e) { // a value may be out of any range
      throw new IllegalArgumentException("ring: " + e.getMessage(), e);
    }
  }

  /** Reads a ring of the service. It ignores members that it does not know. */
  static Ring read(JsonElement element) {
    var m = Json.object(element, "message_id", "business_id");
    return new Ring(
        m.text("message_id"),
        m.text("application"),
        m.text("business_id"),
        m.number("generation"),
        m.number("ring_no"),
        m.number("retry_times"),
        m.instant("ring_at"),
        m.instant("rung_at"),
        m.text("claim_id"),
        m.duration("ack_timeout"),
        m.text("content_type"),
        m.text("traceparent"),
        m.payload(),
        Occurrence.read(m.element("occurrence")));
  }
}
