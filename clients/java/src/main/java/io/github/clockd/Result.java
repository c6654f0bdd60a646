package io.github.clockd;

import com.google.gson.JsonElement;
import java.time.Duration;

/**
 * The result of one change of a batch.
 *
 * @param businessId id of the alarm
 * @param status status that the single call would have had
 * @param generation generation of the alarm afterwards; 0 after a refusal without an alarm
 * @param state state of the alarm afterwards; null after a refusal without an alarm
 * @param error the failure of the change; null: none
 */
public record Result(
    String businessId, int status, long generation, String state, ClockdException error) {
  static Result read(JsonElement element) {
    var m = Json.object(element);
    int status = (int) m.number("status");
    ClockdException error = null;
    if (status >= 300) {
      String code = m.text("code");
      boolean unconfirmed = Calls.mayHaveChanged(status, code);
      error =
          new ClockdException(
              new ClockdException.Fields(
                  status,
                  code,
                  m.text("field"),
                  m.text("detail"),
                  Duration.ZERO,
                  null,
                  unconfirmed,
                  false,
                  null));
    }
    return new Result(
        m.text("business_id"), status, m.number("generation"), m.textOrNull("state"), error);
  }
}
