package io.github.clockd;

import com.google.gson.JsonElement;

/**
 * A reason why due alarms do not ring now.
 *
 * @param code the OpenAPI document of the service explains the codes
 * @param target target of the concerned alarms; null: none, or all
 * @param detail a sentence for people
 */
public record Blocker(String code, String target, String detail) {
  static Blocker read(JsonElement element) {
    var m = Json.object(element);
    return new Blocker(m.text("code"), m.textOrNull("target"), m.text("detail"));
  }
}
