package io.github.clockd;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandler;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;

/** Calls one clockd service. It may be used by several threads. An interrupt ends a call. */
public final class Client {
  private static final String VERSION = "0.1.0";

  private final String base;
  private final String token;
  private final String name;
  private final int tries;
  private final Duration tryTimeout;
  private final Duration timeout;
  private final HttpClient http;

  private Client(Builder b) {
    base = b.server.replaceAll("/+$", "");
    token = b.token;
    name = b.name;
    tries = b.tries;
    tryTimeout = Values.atMostAYear(b.tryTimeout);
    timeout = Values.atMostAYear(b.timeout);
    http =
        b.http != null
            ? b.http
            : HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(Duration.ofSeconds(10))
                .build();
  }

  /** Makes clients. */
  public static final class Builder {
    private String server =
        Objects.requireNonNullElse(System.getenv("CLOCKD_SERVER"), "http://127.0.0.1:8080");
    private String token = Objects.requireNonNullElse(System.getenv("CLOCKD_TOKEN"), "");
    private String name = "";
    private int tries = 5;
    private Duration tryTimeout = Duration.ofSeconds(20);
    private Duration timeout = Duration.ofSeconds(60);
    private HttpClient http;

    private Builder() {}

    /**
     * URL of the service, which may have a path. Default: CLOCKD_SERVER, else
     * http://127.0.0.1:8080.
     */
    public Builder server(String url) {
      server = url;
      return this;
    }

    /**
     * Access token, if the service demands one. Use it over TLS, or inside a trusted network.
     * Default: CLOCKD_TOKEN.
     */
    public Builder token(String accessToken) {
      token = accessToken;
      return this;
    }

    /** Name of this program in answers to rings, for reports. */
    public Builder name(String program) {
      name = program;
      return this;
    }

    /** Most tries of a call; default 5, 1: no call is repeated. */
    public Builder tries(int most) {
      tries = most;
      return this;
    }

    /** Time for one try; default 20 s. The service takes up to 15 s. */
    public Builder tryTimeout(Duration time) {
      tryTimeout = time;
      return this;
    }

    /** Time for a call with its repeats; default 60 s. */
    public Builder timeout(Duration time) {
      timeout = time;
      return this;
    }

    /**
     * The client that sends requests, for a proxy or certificates. It must not follow redirects.
     */
    public Builder http(HttpClient client) {
      http = client;
      return this;
    }

    /** Returns the client. It opens no connection. A ClockdException tells what is wrong. */
    public Client build() {
      if (!isServer(server))
        throw ClockdException.invalid(
            "server", "the server's URL must be like http://127.0.0.1:8080");
      if (URI.create(server).getRawUserInfo() != null) {
        throw ClockdException.invalid(
            "server", "the server's URL must not have a password: use token");
      }
      if (!token.matches("[!-~]*"))
        throw ClockdException.invalid(
            "token", "the access token has a character that no token has");
      if (tries < 1) throw ClockdException.invalid("tries", "a call needs at least 1 try");
      if (timeout.isNegative()
          || timeout.isZero()
          || tryTimeout.isNegative()
          || tryTimeout.isZero()) {
        throw ClockdException.invalid(
            "timeout", "the time for a call and for a try must be positive");
      }
      return new Client(this);
    }

    private static boolean isServer(String url) {
      try {
        URI uri = URI.create(url);
        boolean http = "http".equals(uri.getScheme()) || "https".equals(uri.getScheme());
        return http && uri.getHost() != null && uri.getQuery() == null && uri.getFragment() == null;
      } catch (IllegalArgumentException e) {
        return false;
      }
    }
  }

  /** Returns a builder with the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** Returns a client with the defaults. */
  public static Client create() {
    return builder().build();
  }

  /**
   * Creates the alarm, keeps it if it is the same already, or changes it. Returns the alarm as it
   * is now. A set with a time or a rule may be repeated at any time. A set with a delay is repeated
   * only with {@link Condition#ABSENT}: each repeat would move the alarm.
   */
  public Alarm set(String application, String businessId, AlarmSpec spec) {
    return send(Calls.set(application, businessId, spec));
  }

  /**
   * Cancels an alarm. An alarm that was cancelled before is no error. If it is too late, the code
   * of the error is already_rung, already_expired, already_dead or ring_in_doubt, and the error has
   * the alarm.
   */
  public Alarm cancel(String application, String businessId) {
    return send(Calls.cancel(application, businessId, null, null));
  }

  /** Cancels an alarm that has this generation. */
  public Alarm cancel(String application, String businessId, long generation) {
    return send(Calls.cancel(application, businessId, generation, null));
  }

  /** Cancels an alarm as the act of a person, with a note. */
  public Alarm cancel(String application, String businessId, String note) {
    return send(Calls.cancel(application, businessId, null, note));
  }

  /** Reads an alarm with its failed attempts. */
  public Alarm get(String application, String businessId) {
    return send(Calls.get(application, businessId));
  }

  /**
   * Reads alarms page by page, in the order of their business ids, or with a due range of their due
   * times.
   */
  public Iterable<Alarm> alarms(String application, Filter filter) {
    return () -> new Pages(application, filter);
  }

  /** The alarms of a list. */
  private final class Pages implements Iterator<Alarm> {
    private final String application;
    private final Filter filter;
    private final ArrayDeque<Alarm> page = new ArrayDeque<>();
    private String cursor = "";
    private boolean isLast;

    Pages(String application, Filter filter) {
      this.application = application;
      this.filter = filter;
    }

    @Override
    public boolean hasNext() {
      while (page.isEmpty() && !isLast) {
        var next = send(Calls.page(application, filter.page(cursor)));
        page.addAll(next.alarms());
        cursor = next.cursor();
        isLast = cursor.isEmpty();
      }
      return !page.isEmpty();
    }

    @Override
    public Alarm next() {
      if (!hasNext()) throw new NoSuchElementException();
      return page.remove();
    }
  }

  /**
   * Makes up to 1000 changes with one request: first the sets, then the cancels. It is not atomic.
   * It returns one result for each set and then for each cancel. If any change fails for the
   * service's reasons, the whole call fails, and may be repeated.
   */
  public List<Result> batch(String application, Iterable<Change> changes) {
    return send(Calls.batch(application, changes));
  }

  /**
   * Waits for rings of an application whose target is pull, and returns up to count of them (1 to
   * 64). It returns none if no alarm was due within the wait (100 ms to 1 min). Answer each ring
   * before its ackTimeout has passed. Rings of a lost response ring again after it.
   */
  public List<Ring> reserve(String application, int count, Duration wait) {
    return send(Calls.reserve(application, count, wait, Client::rings));
  }

  private static List<Ring> rings(String json) {
    return Json.object(Json.parse(json)).required("rings", Ring::read);
  }

  /** Reserves rings, and returns each in JSON, which may be unreadable. */
  List<String> reserveJson(String application, int count) {
    return send(Calls.reserve(application, count, Duration.ofSeconds(20), Json::rings));
  }

  /** Tells that the work of a ring is done. */
  public Alarm ack(String application, String messageId) {
    return answer(application, messageId, Answer.ack());
  }

  /**
   * Answers the ring with this message id, and returns the alarm. If it is too late, the code of
   * the error is stale_ring, and the error has the alarm.
   */
  public Alarm answer(String application, String messageId, Answer answer) {
    try {
      return send(Calls.answer(application, messageId, answer, name));
    } catch (ClockdException failed) {
      Alarm accepted = Calls.acceptedBefore(failed, messageId, answer, name);
      if (accepted == null) throw failed;
      return accepted;
    }
  }

  /** Returns a builder of a consumer of the application's rings. See {@link Consumer}. */
  public Consumer.Builder consumer(String application, Function<Ring, Answer> handler) {
    return new Consumer.Builder(this, application, handler);
  }

  /** Sends a request until a try succeeds, or until no further try is allowed. */
  private <T> T send(Calls.Request<T> request) {
    long ends = System.nanoTime() + timeout.plus(request.longPoll()).toNanos();
    boolean unconfirmed = false;
    for (int n = 1; ; n++) {
      try {
        return attempt(request, Duration.ofNanos(ends - System.nanoTime()));
      } catch (ClockdException e) {
        unconfirmed |= e.unconfirmed() && request.mayChange();
        var failed = e.withUnconfirmed(unconfirmed);
        Duration wait = Calls.backoff(n, failed.retryAfter());
        if (n >= tries
            || !request.mayRepeat(failed)
            || wait == null
            || System.nanoTime() + wait.toNanos() - ends >= 0) throw failed;
        pause(wait);
      }
    }
  }

  private <T> T attempt(Calls.Request<T> request, Duration left) {
    Duration limit = tryTimeout.plus(request.longPoll());
    if (left.compareTo(limit) < 0) limit = left;
    var sent = request(request.method(), request.path(), request.headers(), request.body());
    prefer(sent, limit);
    var response = exchange(sent.build(), info -> new Limited(Calls.RESPONSE_BYTES), limit);
    if (response.body() == null) {
      throw ClockdException.unreadable(
          response.statusCode(),
          true,
          new IOException("it has more than " + Calls.RESPONSE_BYTES + " bytes"));
    }
    return Calls.read(
        request,
        new Calls.Response(
            response.statusCode(),
            response.headers().firstValue("Retry-After").orElse(""),
            response.body()));
  }

  /** Tells the service how long the client waits, if that is shorter than the service may take. */
  private static void prefer(HttpRequest.Builder request, Duration limit) {
    Duration wait = limit.minusMillis(500);
    if (wait.compareTo(Duration.ofSeconds(15)) < 0)
      request.header("Prefer", "wait=" + Math.max(1, wait.toSeconds()));
  }

  private HttpRequest.Builder request(
      String method, String path, Map<String, String> headers, String body) {
    var request =
        HttpRequest.newBuilder(URI.create(base + path))
            .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body))
            .header("User-Agent", "clockd-java/" + VERSION);
    headers.forEach(request::header);
    if (body != null) request.header("Content-Type", "application/json");
    if (!token.isEmpty()) request.header("Authorization", "Bearer " + token);
    return request;
  }

  /** Returns the time for one try. */
  Duration tryTimeout() {
    return tryTimeout;
  }

  /** Opens the stream of an application's rings, and resumes it after an event. */
  HttpResponse<InputStream> openStream(String application, String lastId) {
    var request =
        request(
            "GET",
            Calls.applicationPath(application) + "/rings",
            Map.of("Accept", "text/event-stream"),
            null);
    if (lastId.matches("[ -~]+")) request.header("Last-Event-ID", lastId);
    return exchange(request.build(), HttpResponse.BodyHandlers.ofInputStream(), tryTimeout);
  }

  /** Sends a request, and returns the response if it comes within the limit. */
  private <T> HttpResponse<T> exchange(
      HttpRequest request, BodyHandler<T> handler, Duration limit) {
    CompletableFuture<HttpResponse<T>> response = http.sendAsync(request, handler);
    try {
      return response.get(Math.max(1, limit.toMillis()), TimeUnit.MILLISECONDS);
    } catch (ExecutionException e) {
      throw Calls.broken(base, e.getCause());
    } catch (TimeoutException e) {
      response.cancel(true);
      throw ClockdException.broken(
          "the service did not respond within " + limit.toMillis() / 1000.0 + " s", true, true, e);
    } catch (InterruptedException e) {
      response.cancel(true);
      throw interrupted(e);
    }
  }

  /** Waits. */
  static void pause(Duration wait) {
    try {
      Thread.sleep(wait.toMillis());
    } catch (InterruptedException e) {
      throw interrupted(e);
    }
  }

  private static ClockdException interrupted(InterruptedException e) {
    Thread.currentThread().interrupt();
    return ClockdException.broken("the thread was interrupted", false, true, e);
  }
}
