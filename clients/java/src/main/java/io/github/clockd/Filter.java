package io.github.clockd;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** Selects alarms of an application. Each method returns a changed copy. */
public final class Filter {
  /** All alarms. */
  public static final Filter ALL = new Filter(Map.of());

  private final Map<String, String> query;

  private Filter(Map<String, String> query) {
    this.query = query;
  }

  private Filter with(String name, String value) {
    var changed = new LinkedHashMap<>(query);
    changed.put(name, value);
    return new Filter(changed);
  }

  /** Alarms in one of these states. */
  public Filter states(String... states) {
    return with("state", String.join(",", states));
  }

  /** Alarms whose business ids begin so. */
  public Filter prefix(String prefix) {
    return with("prefix", Values.checkUnicode("prefix", prefix));
  }

  /** Alarms whose next try is at this time or later. The list is then by that time. */
  public Filter dueAfter(Instant time) {
    return with("due_after", String.valueOf(Values.write("due_after", time)));
  }

  /** Alarms whose next try is before this time. The list is then by that time. */
  public Filter dueBefore(Instant time) {
    return with("due_before", String.valueOf(Values.write("due_before", time)));
  }

  /** Returns the query of a page of 1000 alarms. The cursor of the first page is empty. */
  String page(String cursor) {
    var whole = with("limit", "1000");
    if (!cursor.isEmpty()) whole = whole.with("cursor", cursor);
    return whole.query.entrySet().stream()
        .map(e -> e.getKey() + "=" + URLEncoder.encode(e.getValue(), StandardCharsets.UTF_8))
        .collect(Collectors.joining("&"));
  }
}
