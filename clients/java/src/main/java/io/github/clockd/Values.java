package io.github.clockd;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.regex.Pattern;

/** Times and durations in the service's JSON. */
final class Values {
  private static final Pattern PART = Pattern.compile("(\\d+)(?:\\.(\\d+))?(h|ms|m|s|us|µs)");

  private Values() {}

  /** Returns milliseconds, rounded up so that no alarm rings early. */
  static long write(String field, Duration d) {
    try {
      return ceil(Math.multiplyExact(d.getSeconds(), 1000L), d.getNano());
    } catch (ArithmeticException e) {
      throw ClockdException.invalid(field, field + ": the duration is too long");
    }
  }

  /** Returns milliseconds since 1970, rounded up so that no alarm rings early. */
  static long write(String field, Instant at) {
    try {
      return ceil(Math.multiplyExact(at.getEpochSecond(), 1000L), at.getNano());
    } catch (ArithmeticException e) {
      throw ClockdException.invalid(field, field + ": the time is too far away");
    }
  }

  private static long ceil(long milliseconds, int nanoseconds) {
    return Math.addExact(milliseconds, (nanoseconds + 999_999) / 1_000_000);
  }

  /** Reads a text like "1h30m". Other texts are an IllegalArgumentException. */
  static Duration readDuration(String text) {
    Duration total = Duration.ZERO;
    var part = PART.matcher(text);
    for (int at = 0; at < text.length() || at == 0; at = part.end()) {
      if (!part.region(at, text.length()).lookingAt())
        throw new IllegalArgumentException("\"" + text + "\" is no duration");
      Duration unit =
          switch (part.group(3)) {
            case "h" -> Duration.ofHours(1);
            case "m" -> Duration.ofMinutes(1);
            case "s" -> Duration.ofSeconds(1);
            case "ms" -> Duration.ofMillis(1);
            default -> Duration.ofNanos(1000);
          };
      total = total.plus(unit.multipliedBy(Long.parseLong(part.group(1))));
      String fraction = part.group(2);
      if (fraction != null)
        total =
            total.plus(
                unit.multipliedBy(Long.parseLong(fraction))
                    .dividedBy((long) Math.pow(10, fraction.length())));
    }
    return total;
  }

  /** Returns the duration, or a year if that is shorter, which any clock can count. */
  static Duration atMostAYear(Duration d) {
    Duration year = Duration.ofDays(365);
    return d.compareTo(year) < 0 ? d : year;
  }

  /** Refuses half a pair of surrogates, which would be sent as a question mark. */
  static String checkUnicode(String field, String text) {
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(text))
      throw ClockdException.invalid(field, field + " must be Unicode");
    return text;
  }

  /** Reads a text of RFC 3339. Other texts are a DateTimeException. */
  static Instant readInstant(String text) {
    return OffsetDateTime.parse(text).toInstant();
  }
}
