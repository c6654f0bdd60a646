package io.github.clockd;

import com.google.gson.JsonObject;
import java.time.Duration;

/**
 * The policy for rings that fail: the longest wait is initial * factor^(tries-1), at most cap.
 *
 * @param initial null: 1 s
 * @param factor null: 2. With 1 all waits are the same
 * @param cap null: 30 s
 * @param limit retries until the alarm is dead; null: until latestRingAt
 */
public record Retry(Duration initial, Double factor, Duration cap, Integer limit) {
  JsonObject body() {
    var body = new JsonObject();
    if (initial != null) body.addProperty("initial", Values.write("retry.initial", initial));
    if (factor != null && !Double.isFinite(factor))
      throw ClockdException.invalid("retry.factor", "the factor must be a number");
    if (factor != null) body.addProperty("factor", factor);
    if (cap != null) body.addProperty("cap", Values.write("retry.cap", cap));
    if (limit != null) body.addProperty("limit", limit);
    return body;
  }
}
