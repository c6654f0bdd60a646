package io.github.clockd;

import com.google.gson.JsonObject;
import java.time.Duration;

/** An answer to a ring of an alarm with ackTimeout. */
public final class Answer {
  /** A handler that returns it does not answer: the alarm rings again after its ackTimeout. */
  public static final Answer NONE = new Answer("", null, "", "");

  final String kind;
  private final Duration delay;
  private final String reason;
  private final String by;

  private Answer(String kind, Duration delay, String reason, String by) {
    this.kind = kind;
    this.delay = delay;
    this.reason = reason;
    this.by = by;
  }

  /** The work is done. */
  public static Answer ack() {
    return new Answer("ack", null, "", "");
  }

  /** Ring again at once. */
  public static Answer release() {
    return new Answer("release", null, "", "");
  }

  /** Ring again after the delay. */
  public static Answer release(Duration delay) {
    return new Answer("release", delay, "", "");
  }

  /** Give up: a person looks at the alarm. */
  public static Answer bury() {
    return new Answer("bury", null, "", "");
  }

  /** Wait longer for the answer: the alarm's ackTimeout counts from now. */
  public static Answer touch() {
    return new Answer("touch", null, "", "");
  }

  /** Wait longer for the answer: the delay counts from now. */
  public static Answer touch(Duration delay) {
    return new Answer("touch", delay, "", "");
  }

  /**
   * Returns the answer with a reason, up to 500 bytes, for reports. Only release and bury have one.
   */
  public Answer reason(String reason) {
    return new Answer(kind, delay, reason, by);
  }

  /**
   * Returns the answer with the name of the answering program or person; default: the client's
   * name.
   */
  public Answer by(String name) {
    return new Answer(kind, delay, reason, name);
  }

  String byOr(String name) {
    return by.isEmpty() ? name : by;
  }

  /** Returns the answer as JSON, by default of this program or person. */
  JsonObject body(String name) {
    var body = new JsonObject();
    if (delay != null) body.addProperty("delay", Values.write("delay", delay));
    if (!reason.isEmpty()) body.addProperty("reason", reason);
    if (!byOr(name).isEmpty()) body.addProperty("by", byOr(name));
    return body;
  }
}
