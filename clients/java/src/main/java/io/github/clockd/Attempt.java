package io.github.clockd;

import com.google.gson.JsonElement;
import java.time.Instant;

/**
 * A try to ring that was not confirmed, or a ring that was released, buried or not answered.
 *
 * @param generation version of the alarm
 * @param ringNo number of the ring
 * @param claimId transaction of the service that made the try
 * @param time when the try began
 * @param outcome such as returned, nacked, in_doubt, released, buried or unacknowledged
 * @param error null: none
 * @param by who released or buried the ring; null: not known
 */
public record Attempt(
    long generation,
    long ringNo,
    String claimId,
    Instant time,
    String outcome,
    String error,
    String by) {
  static Attempt read(JsonElement element) {
    var m = Json.object(element);
    return new Attempt(
        m.number("generation"),
        m.number("ring_no"),
        m.text("claim_id"),
        m.instant("time"),
        m.text("outcome"),
        m.textOrNull("error"),
        m.textOrNull("by"));
  }
}
