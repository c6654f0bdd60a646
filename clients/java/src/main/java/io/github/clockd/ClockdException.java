package io.github.clockd;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** The failure of a call. A failure without a response has its cause. */
public final class ClockdException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final int status;
  private final String code;
  private final String field;
  private final String detail;
  private final Duration retryAfter;
  private final transient Alarm alarm;
  private final boolean unconfirmed;
  private final boolean again;

  /** What an exception has. */
  record Fields(
      int status,
      String code,
      String field,
      String detail,
      Duration retryAfter,
      Alarm alarm,
      boolean unconfirmed,
      boolean again,
      Throwable cause) {}

  ClockdException(Fields f) {
    super(textOf(f), f.cause);
    status = f.status;
    code = f.code;
    field = f.field;
    detail = f.detail;
    retryAfter = f.retryAfter;
    alarm = f.alarm;
    unconfirmed = f.unconfirmed;
    again = f.again;
  }

  /** Returns the error for input that the client itself refuses. */
  static ClockdException invalid(String field, String detail) {
    return new ClockdException(
        new Fields(0, "invalid_value", field, detail, Duration.ZERO, null, false, false, null));
  }

  /** Returns the error for a try without a whole response. */
  static ClockdException broken(
      String detail, boolean again, boolean unconfirmed, Throwable cause) {
    return new ClockdException(
        new Fields(0, "", "", detail, Duration.ZERO, null, unconfirmed, again, cause));
  }

  /** Returns the error for a response with an expected status that is not clockd's. */
  static ClockdException unreadable(int status, boolean unconfirmed, Throwable cause) {
    String detail = "the server's response cannot be read: " + cause.getMessage();
    return new ClockdException(
        new Fields(status, "", "", detail, Duration.ZERO, null, unconfirmed, false, cause));
  }

  /** Returns the exception with another value of unconfirmed. */
  ClockdException withUnconfirmed(boolean other) {
    if (other == unconfirmed) return this;
    var changed =
        new ClockdException(
            new Fields(status, code, field, detail, retryAfter, alarm, other, again, getCause()));
    changed.setStackTrace(getStackTrace());
    return changed;
  }

  private static String textOf(Fields f) {
    List<String> more = new ArrayList<>();
    if (!f.code.isEmpty()) more.add(f.code);
    if (!f.field.isEmpty()) more.add("field " + f.field);
    if (!f.retryAfter.isZero()) more.add("repeat after " + f.retryAfter.toSeconds() + " s");
    String text = f.detail.isEmpty() ? "the server returned status " + f.status : f.detail;
    return more.isEmpty() ? text : text + " (" + String.join(", ", more) + ")";
  }

  /** Returns the status of the response; 0 if there was none. */
  public int status() {
    return status;
  }

  /**
   * Returns the stable name of the failure, such as {@code already_rung}; empty if the response has
   * none.
   */
  public String code() {
    return code;
  }

  /** Returns the wrong part of the input; empty if no part is wrong. */
  public String field() {
    return field;
  }

  /** Returns the text for people. */
  public String detail() {
    return detail;
  }

  /** Returns the wait that the service asks for before a repeat; zero: none. */
  public Duration retryAfter() {
    return retryAfter;
  }

  /** Returns the alarm that caused the refusal. */
  public Optional<Alarm> alarm() {
    return Optional.ofNullable(alarm);
  }

  /** Reports whether this try or an earlier try of the call may have changed something. */
  public boolean unconfirmed() {
    return unconfirmed;
  }

  /** Reports whether the same call may succeed later. */
  public boolean again() {
    return again;
  }
}
