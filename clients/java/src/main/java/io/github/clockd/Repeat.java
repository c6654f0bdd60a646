package io.github.clockd;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneId;
import java.util.List;

/** The rule of an alarm that rings again. Each method returns a changed copy. */
public final class Repeat {
  private final JsonObject body;

  private Repeat(JsonObject body) {
    this.body = body;
  }

  /**
   * Returns a rule of five fields, six with the second first, or a short form such as @daily. Its
   * time zone is UTC.
   */
  public static Repeat cron(String expression) {
    var body = new JsonObject();
    body.addProperty("cron", expression);
    return new Repeat(body);
  }

  /** Returns a rule with a period, from 1 s to 3660 days. */
  public static Repeat every(Duration period) {
    var body = new JsonObject();
    body.addProperty("every", Values.write("repeat.every", period));
    return new Repeat(body);
  }

  private Repeat with(String name, Number value) {
    var changed = body.deepCopy();
    changed.addProperty(name, value);
    return new Repeat(changed);
  }

  private Repeat with(String name, String value) {
    var changed = body.deepCopy();
    changed.addProperty(name, value);
    return new Repeat(changed);
  }

  /** Time zone of a cron rule. */
  public Repeat timeZone(ZoneId zone) {
    return with("time_zone", zone.getId());
  }

  /**
   * An occurrence of a rule with a period; none is before it. Default: one period after the first
   * set.
   */
  public Repeat anchor(Instant at) {
    return with("anchor", Values.write("repeat.anchor", at));
  }

  /** Earliest possible occurrence; default: no begin. */
  public Repeat from(Instant at) {
    return with("from", Values.write("repeat.from", at));
  }

  /** Latest possible occurrence; default: no end. */
  public Repeat until(Instant at) {
    return with("until", Values.write("repeat.until", at));
  }

  /** Local dates without an occurrence, of a cron rule; at most 100. */
  public Repeat skipDates(List<LocalDate> dates) {
    var days = new JsonArray();
    dates.forEach(date -> days.add(date.toString()));
    var changed = body.deepCopy();
    changed.add("skip_dates", days);
    return new Repeat(changed);
  }

  /** Number of occurrences; default: no limit. */
  public Repeat times(long n) {
    return with("times", n);
  }

  /** Longest random delay of a ring, at most 24 h; default: none. */
  public Repeat jitter(Duration longest) {
    return with("jitter", Values.write("repeat.jitter", longest));
  }

  /** Time after an occurrence until which it may ring; default: however late. */
  public Repeat latestAfter(Duration time) {
    return with("latest_after", Values.write("repeat.latest_after", time));
  }

  /**
   * Effect of missed occurrences: once (default: the latest one rings, however late), skip or all.
   */
  public Repeat missed(String effect) {
    return with("missed", effect);
  }

  /** Most late rings with missed all, up to 1000; default 100. */
  public Repeat missedLimit(int rings) {
    return with("missed_limit", rings);
  }

  /** Longest lateness of a missed occurrence that still rings; default: however late. */
  public Repeat missedWindow(Duration lateness) {
    return with("missed_window", Values.write("repeat.missed_window", lateness));
  }

  /** Effect of an occurrence while an earlier ring is not over: skip (default) or queue_one. */
  public Repeat overlap(String effect) {
    return with("overlap", effect);
  }

  /** Number of failed occurrences in a row that pauses the alarm; default: none does. */
  public Repeat pauseAfter(int failed) {
    return with("pause_after", failed);
  }

  JsonObject body() {
    return body.deepCopy();
  }
}
