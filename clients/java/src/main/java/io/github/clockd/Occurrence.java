package io.github.clockd;

import com.google.gson.JsonElement;
import com.google.gson.JsonParseException;
import java.time.Instant;

/**
 * An occurrence of a repeating alarm.
 *
 * @param number 1 for the first occurrence of a generation; 0 for one of a backfill
 * @param at its time, without jitter
 * @param previousAt time of the occurrence before it, whether it rang or not; null: none
 * @param nextAt time of the occurrence after it; null: none
 */
public record Occurrence(long number, Instant at, Instant previousAt, Instant nextAt) {
  static Occurrence read(JsonElement element) {
    if (element == null) return null;
    var m = Json.object(element);
    if (m.instant("at") == null) throw new JsonParseException("an occurrence needs a time");
    return new Occurrence(
        m.number("number"), m.instant("at"), m.instant("previous_at"), m.instant("next_at"));
  }
}
