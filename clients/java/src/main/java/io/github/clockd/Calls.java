package io.github.clockd;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.net.ConnectException;
import java.net.URLEncoder;
import java.net.http.HttpConnectTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;
import javax.net.ssl.SSLHandshakeException;

/** What a call sends, when it is repeated, and what its response means. */
final class Calls {
  /** Size of the largest response that is read, in bytes. A page of a list has about 4 MiB. */
  static final int RESPONSE_BYTES = 16 << 20;

  /** Longest wait between two tries, if the service does not ask for more. */
  static final Duration LONGEST_WAIT = Duration.ofSeconds(5);

  private static final long FIRST_WAIT_MS = 100;
  private static final Duration LONGEST_RETRY_AFTER = Duration.ofMinutes(1);

  private Calls() {}

  /** When a call is repeated. */
  enum Repetition {
    /** A second effect of the request does no harm. */
    ALWAYS,
    /** Only after a try that certainly had no effect. */
    UNSENT,
    /** Not at all. */
    NEVER
  }

  /**
   * One call, which may take several tries.
   *
   * @param path escaped path and query
   * @param body JSON; null: none
   * @param longPoll time that the service may wait before it responds; a try lasts that much longer
   * @param read reads the JSON of the response
   */
  record Request<T>(
      String method,
      String path,
      Map<String, String> headers,
      String body,
      Repetition repetition,
      Duration longPoll,
      Function<String, T> read) {
    Request(
        String method,
        String path,
        Map<String, String> headers,
        String body,
        Repetition repetition,
        Function<JsonElement, T> read) {
      this(
          method,
          path,
          headers,
          body,
          repetition,
          Duration.ZERO,
          json -> read.apply(Json.parse(json)));
    }

    boolean mayRepeat(ClockdException failed) {
      return failed.again()
          && (repetition == Repetition.ALWAYS
              || repetition == Repetition.UNSENT && !failed.unconfirmed());
    }

    boolean mayChange() {
      return !method.equals("GET");
    }
  }

  /** A response as it came. */
  record Response(int status, String retryAfter, byte[] body) {}

  /** Returns what a response holds. */
  static <T> T read(Request<T> request, Response response) {
    if (response.status < 200 || response.status > 299) throw refusal(response);
    try {
      return request.read.apply(new String(response.body, StandardCharsets.UTF_8));
    } catch (RuntimeException e) { // a value may be out of any range
      throw ClockdException.unreadable(response.status, request.mayChange(), e);
    }
  }

  /** Returns the error for a response that is not 2xx. A proxy may have sent it. */
  static ClockdException refusal(Response response) {
    int status = response.status;
    String code = "", field = "", detail = "";
    Alarm alarm = null;
    try {
      var problem =
          Json.object(Json.parse(new String(response.body, StandardCharsets.UTF_8)), "code");
      code = problem.text("code");
      field = problem.text("field");
      detail = problem.text("detail");
      alarm = Alarm.read(problem.element("alarm"));
    } catch (RuntimeException e) {
      // it is no problem of clockd, or has no alarm
    }
    boolean again = Set.of(408, 429, 502, 503, 504).contains(status);
    return new ClockdException(
        new ClockdException.Fields(
            status,
            code,
            field,
            detail,
            readRetryAfter(response.retryAfter),
            alarm,
            mayHaveChanged(status, code),
            again,
            null));
  }

  /** Returns the error for a try without a whole response. */
  static ClockdException broken(String server, Throwable cause) {
    boolean unsent =
        cause instanceof ConnectException
            || cause instanceof HttpConnectTimeoutException
            || cause instanceof SSLHandshakeException;
    Throwable told = cause; // of a failed connect the first cause alone may tell the reason
    while (told.getMessage() == null && told.getCause() != null) told = told.getCause();
    String why = told.getMessage() == null ? told.getClass().getSimpleName() : told.getMessage();
    return ClockdException.broken("no response from " + server + ": " + why, true, !unsent, cause);
  }

  /**
   * Reports whether the service may have made a change. A proxy sends 502 and 504 when it does not
   * know.
   */
  static boolean mayHaveChanged(int status, String code) {
    return status >= 500 && !Set.of("unavailable", "overloaded", "key_overloaded").contains(code);
  }

  /**
   * Reads a Retry-After header in either of its forms. It returns zero for a value that it cannot
   * read.
   */
  static Duration readRetryAfter(String value) {
    if (value.matches("\\d{1,10}")) {
      long seconds = Long.parseLong(value);
      return seconds <= Integer.MAX_VALUE ? Duration.ofSeconds(seconds) : Duration.ZERO;
    }
    try {
      Instant at = ZonedDateTime.parse(value, DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
      long seconds = Math.round(Duration.between(Instant.now(), at).toMillis() / 1000.0);
      return Duration.ofSeconds(Math.max(0, seconds));
    } catch (DateTimeException e) {
      return Duration.ZERO;
    }
  }

  /**
   * Returns the wait after the nth try; null: it would be too long. A Retry-After is extended by up
   * to a half, any other wait is shortened by up to a half.
   */
  static Duration backoff(int n, Duration retryAfter) {
    if (retryAfter.compareTo(LONGEST_RETRY_AFTER) > 0) return null;
    var random = ThreadLocalRandom.current();
    if (!retryAfter.isZero())
      return Duration.ofMillis((long) (retryAfter.toMillis() * random.nextDouble(1, 1.5)));
    long wait = Math.min(FIRST_WAIT_MS << Math.min(n - 1, 10), LONGEST_WAIT.toMillis());
    return Duration.ofMillis((long) (wait * random.nextDouble(0.5, 1)));
  }

  /** Returns the wait before a stream is opened again. */
  static Duration pauseOfStream(int n, Duration retryAfter) {
    return backoff(
        n, retryAfter.compareTo(LONGEST_RETRY_AFTER) > 0 ? LONGEST_RETRY_AFTER : retryAfter);
  }

  /**
   * Returns an id as one segment of a path. Programs on the way resolve . and .. even as segments.
   */
  static String segment(String field, String id) {
    checkId(field, id);
    if (id.equals(".") || id.equals("..")) return id.replace(".", "%2E");
    return URLEncoder.encode(id, StandardCharsets.UTF_8).replace("+", "%20");
  }

  private static void checkId(String field, String id) {
    if (id == null || id.isEmpty()) {
      throw ClockdException.invalid(field, field + " must not be empty");
    }
    Values.checkUnicode(field, id);
  }

  static String applicationPath(String application) {
    return "/v1/applications/" + segment("application", application);
  }

  private static String alarmPath(String application, String businessId) {
    return applicationPath(application) + "/alarms/" + segment("business_id", businessId);
  }

  static Request<Alarm> set(String application, String businessId, AlarmSpec spec) {
    var repetition = spec.isRepeatable() ? Repetition.ALWAYS : Repetition.NEVER;
    return new Request<>(
        "PUT",
        alarmPath(application, businessId),
        spec.headers(),
        spec.body(null),
        repetition,
        Alarm::read);
  }

  /** Returns the request of a cancel. With a note, which may be null, it is the act of a person. */
  static Request<Alarm> cancel(
      String application, String businessId, Long generation, String note) {
    Map<String, String> headers =
        generation == null ? Map.of() : Map.of("If-Match", "\"" + generation + "\"");
    String path = alarmPath(application, businessId);
    if (note == null)
      return new Request<>("DELETE", path, headers, null, Repetition.ALWAYS, Alarm::read);
    var body = new JsonObject();
    body.addProperty("note", note);
    return new Request<>(
        "POST", path + "/cancel", headers, body.toString(), Repetition.ALWAYS, Alarm::read);
  }

  static Request<Alarm> get(String application, String businessId) {
    return new Request<>(
        "GET", alarmPath(application, businessId), Map.of(), null, Repetition.ALWAYS, Alarm::read);
  }

  static Request<List<Result>> batch(String application, Iterable<Change> changes) {
    List<String> sets = new ArrayList<>();
    var cancels = new JsonArray();
    var repetition = Repetition.ALWAYS;
    for (Change change : changes) {
      checkId("business_id", change.businessId);
      if (change.spec == null) {
        cancels.add(change.businessId);
        continue;
      }
      if (!change.spec.headers().isEmpty())
        throw ClockdException.invalid(
            "if", "a generation and traceparent are for single calls only");
      sets.add(change.spec.body(change.businessId));
      if (!change.spec.isRepeatable()) repetition = Repetition.NEVER;
    }
    return new Request<>(
        "POST",
        applicationPath(application) + "/alarms",
        Map.of(),
        "{\"set\":[" + String.join(",", sets) + "],\"cancel\":" + cancels + "}",
        repetition,
        e -> Json.object(e).required("results", Result::read));
  }

  /** A page of a list. The cursor is empty on the last page. */
  record Page(List<Alarm> alarms, String cursor) {}

  static Request<Page> page(String application, String query) {
    return new Request<>(
        "GET",
        applicationPath(application) + "/alarms?" + query,
        Map.of(),
        null,
        Repetition.ALWAYS,
        Calls::readPage);
  }

  private static Page readPage(JsonElement element) {
    var page = Json.object(element);
    return new Page(page.required("alarms", Alarm::read), page.text("next_cursor"));
  }

  /** Returns the request of a reserve. A repeat of it would reserve further rings. */
  static <T> Request<T> reserve(
      String application, int count, Duration wait, Function<String, T> read) {
    var body = new JsonObject();
    body.addProperty("count", count);
    body.addProperty("wait", Values.write("wait", wait));
    return new Request<>(
        "POST",
        applicationPath(application) + "/rings/reserve",
        Map.of(),
        body.toString(),
        Repetition.UNSENT,
        wait,
        read);
  }

  static Request<Alarm> answer(String application, String messageId, Answer answer, String name) {
    if (answer.kind.isEmpty())
      throw ClockdException.invalid("kind", "an answer is ack, release, bury or touch");
    String path =
        applicationPath(application)
            + "/rings/"
            + segment("message_id", messageId)
            + "/"
            + answer.kind;
    return new Request<>(
        "POST", path, Map.of(), answer.body(name).toString(), Repetition.ALWAYS, Alarm::read);
  }

  /**
   * Returns the alarm if an earlier try of the answer was accepted, and its response was lost; else
   * null.
   */
  static Alarm acceptedBefore(
      ClockdException failed, String messageId, Answer answer, String name) {
    Alarm alarm = failed.alarm().orElse(null);
    if (!failed.code().equals("stale_ring")
        || !failed.unconfirmed()
        || alarm == null
        || !answer.kind.equals(alarm.answer())) return null;
    String by = answer.byOr(name);
    if (!by.isEmpty() && !by.equals(alarm.answeredBy())) return null;
    return messageId.endsWith("." + alarm.generation() + "." + alarm.ringNo()) ? alarm : null;
  }
}
