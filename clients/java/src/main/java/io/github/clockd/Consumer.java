package io.github.clockd;

import java.io.IOException;
import java.io.InputStream;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * Receives the rings of an application, and calls the handler once for each message id, in threads
 * of its own.
 *
 * <p>The handler returns the answer to a ring: null or {@link Answer#ack} for work that is done,
 * {@link Answer#release}, {@link Answer#bury}, or {@link Answer#NONE}. If it throws, there is no
 * answer: the alarm rings again after its ackTimeout. A ring without ackTimeout needs no answer,
 * and is lost if the work fails.
 *
 * <pre>
 *   connect ──▶ read ──▶ ring ──▶ wait for a handler ──▶ handle ──▶ answer
 *      ▲         │ end, error, 50 s of silence            (only if the ring needs one)
 *      └─ pause ◀┘
 * </pre>
 */
public final class Consumer implements AutoCloseable {
  /** Longest silence of a stream. The service sends a comment every 15 s. */
  private static final Duration SILENCE = Duration.ofSeconds(50);

  /** A reserve that returns no ring sooner is followed by a pause: the service waits for one. */
  private static final Duration SHORT_RESERVE = Duration.ofSeconds(1);

  private static final int MOST_RESERVED = 64;
  private static final Logger LOGGER = Logger.getLogger("io.github.clockd");

  private final Client client;
  private final String application;
  private final Function<Ring, Answer> handler;
  private final int concurrency;
  private final boolean pull;
  private final int readAhead;
  private final Duration drain;
  private final java.util.function.Consumer<Fault> onFault;
  private final Memory memory;

  // guarded by this
  private final Queue<Ring> waiting =
      new ArrayDeque<>(); // rings that were read and wait for a handler
  private int handling; // calls of the handler
  private boolean stopped;
  private boolean over; // whether the handlers end
  private boolean returned; // whether run has returned
  private ClockdException refused; // null: the service has not refused
  private Thread source; // reads rings; null before run
  private boolean read; // whether the source has ended
  private InputStream open; // the stream that it reads; null: none

  // of the source alone
  private String lastId =
      ""; // of the last event whose ring was handed over, from which the next stream resumes
  private boolean arrived; // whether a ring has come since the last pause

  private Consumer(Builder b) {
    client = b.client;
    application = b.application;
    handler = b.handler;
    concurrency = b.concurrency;
    pull = b.pull;
    readAhead = b.readAhead;
    drain = Values.atMostAYear(b.drain);
    onFault = b.onFault;
    memory = new Memory(b.memory);
  }

  /** Makes consumers. */
  public static final class Builder {
    private final Client client;
    private final String application;
    private final Function<Ring, Answer> handler;
    private int concurrency = 1;
    private boolean pull;
    private int readAhead = 100;
    private int memory = 100_000;
    private Duration drain = Duration.ofSeconds(10);
    private java.util.function.Consumer<Fault> onFault = Consumer::log;

    Builder(Client client, String application, Function<Ring, Answer> handler) {
      this.client = client;
      this.application = application;
      this.handler = Objects.requireNonNull(handler, "handler");
    }

    /** Calls of the handler at once; default 1: rings are handled in the order of their arrival. */
    public Builder concurrency(int threads) {
      concurrency = threads;
      return this;
    }

    /**
     * Reserve rings, for an application whose target is pull. Default: read them from the service's
     * stream.
     */
    public Builder pull() {
      pull = true;
      return this;
    }

    /** Most rings of a stream that were read and wait for the handler; default 100. */
    public Builder readAhead(int rings) {
      readAhead = rings;
      return this;
    }

    /** Message ids that are remembered, to recognize copies; default 100,000. */
    public Builder memory(int ids) {
      memory = ids;
      return this;
    }

    /** Time for the rings that were read, after the stop; default 10 s. */
    public Builder drain(Duration time) {
      drain = Objects.requireNonNull(time, "drain");
      return this;
    }

    /**
     * Is told each fault after which the consumer goes on, by several threads. Default: a logger
     * warns.
     */
    public Builder onFault(java.util.function.Consumer<Fault> listener) {
      onFault = Objects.requireNonNull(listener, "onFault");
      return this;
    }

    /** Returns the consumer. */
    public Consumer build() {
      if (concurrency < 1 || readAhead < 1 || memory < 1) {
        throw ClockdException.invalid(
            "concurrency", "concurrency, readAhead and memory must be at least 1");
      }
      if (drain.isNegative())
        throw ClockdException.invalid("drain", "the time for the rings that were read is negative");
      Calls.applicationPath(application); // refuses what is no name
      return new Consumer(this);
    }

    /** Builds the consumer, and runs it in this thread. */
    public void run() {
      build().run();
    }
  }

  private static void log(Fault fault) {
    LOGGER.log(
        Level.WARNING,
        fault.text(),
        fault.cause() instanceof ClockdException ? null : fault.cause());
  }

  /**
   * Handles rings until {@link #stop} or an interrupt, and then the rings that were read. It goes
   * on after each end of a connection. It throws a {@link ClockdException} if the service refuses
   * the application, if the URL leads to another program, or if rings are left after the drain. It
   * runs once.
   */
  public void run() {
    synchronized (this) {
      if (source != null) throw new IllegalStateException("the consumer runs already");
      source = thread("source", this::readRings);
    }
    List<Thread> threads = new ArrayList<>();
    for (int i = 1; i <= concurrency; i++) threads.add(thread("handler-" + i, this::handleRings));
    threads.forEach(Thread::start);
    source.start();
    boolean interrupted = awaitEnd();
    stop();
    int left = drained();
    threads.forEach(Thread::interrupt); // waits for a ring, or works too long
    ClockdException failed = refused;
    if (failed == null && left > 0) {
      String text =
          "rings of "
              + application
              + " that were read and not handled within "
              + drain.toMillis() / 1000.0
              + " s: "
              + left;
      failed = ClockdException.broken(text, false, false, null);
      tell(text, failed, null); // the program may end before it sees the exception
    }
    hasReturned();
    if (interrupted) Thread.currentThread().interrupt();
    if (failed != null) throw failed;
  }

  private Thread thread(String name, Runnable work) {
    var thread = new Thread(work, "clockd-" + application + "-" + name);
    thread.setDaemon(true);
    return thread;
  }

  /**
   * Waits until the consumer was stopped, or the service has refused it. It reports an interrupt,
   * which ends the wait.
   */
  private synchronized boolean awaitEnd() {
    while (!stopped) {
      try {
        wait();
      } catch (InterruptedException e) {
        return true;
      }
    }
    return false;
  }

  /** Ends {@link #run}. Any thread may call it. */
  public void stop() {
    InputStream reading;
    synchronized (this) {
      stopped = true;
      notifyAll();
      if (source != null) source.interrupt();
      reading = open;
    }
    close(reading); // a read does not notice the interrupt
  }

  /** Ends {@link #run}, and waits until it returns. A handler must not call it. */
  @Override
  public void close() {
    stop();
    synchronized (this) {
      try {
        while (source != null && !returned) wait();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private synchronized void hasReturned() {
    returned = true;
    notifyAll();
  }

  private static void close(InputStream stream) {
    try {
      if (stream != null) stream.close();
    } catch (IOException e) {
      // it is over in any case
    }
  }

  /** Notes the stream that is read. A consumer that was stopped meanwhile closes it. */
  private void reading(InputStream stream) {
    synchronized (this) {
      open = stream;
      if (!stopped) return;
    }
    close(stream);
  }

  private synchronized boolean isStopped() {
    return stopped;
  }

  /** Waits for the rings that were read, and returns the number of rings that are not handled. */
  private synchronized int drained() {
    long ends = System.nanoTime() + drain.toNanos();
    try {
      for (long left;
          (!read || waiting.size() + handling > 0) && (left = ends - System.nanoTime()) > 0; ) {
        TimeUnit.NANOSECONDS.timedWait(this, left);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt(); // do not wait longer
    }
    over = true;
    notifyAll();
    return waiting.size() + handling;
  }

  /**
   * Reads streams, or reserves rings, until the consumer is stopped, or the service refuses that
   * for good.
   */
  private void readRings() {
    var timer = Executors.newSingleThreadScheduledExecutor(task -> thread("silence", task));
    try {
      int n = 0;
      while (!isStopped()) n = readOnce(timer, n);
    } catch (ClockdException e) {
      refuse(e);
    } catch (RuntimeException | Error e) { // run must not wait for ever
      refuse(ClockdException.broken(e.toString(), false, false, e));
    } finally {
      timer.shutdownNow();
      hasRead();
    }
  }

  private synchronized void hasRead() {
    read = true;
    notifyAll();
  }

  private synchronized void refuse(ClockdException e) {
    if (stopped) return; // it is the end of the request
    refused = e;
    stopped = true;
    notifyAll();
  }

  /** Reads one stream, or reserves once. It returns the number of failures without a ring. */
  private int readOnce(ScheduledExecutorService timer, int failures) {
    long began = System.nanoTime();
    arrived = false;
    try {
      if (pull) reserve();
      else stream(timer);
      return 0;
    } catch (ClockdException failed) {
      if (isStopped()
          || !failed.again()
              && failed.status() < 500
              && !failed.code().equals("rings_go_elsewhere")) throw failed;
      tell(
          (pull ? "reserve of " : "stream of ") + application + ": " + failed.getMessage(),
          failed,
          null);
      boolean isFirst = arrived || System.nanoTime() - began > Calls.LONGEST_WAIT.toNanos();
      int n = isFirst ? 1 : failures + 1;
      Client.pause(Calls.pauseOfStream(n, failed.retryAfter()));
      return n;
    }
  }

  /** Hands over the rings of one stream. It ends with an error. */
  private void stream(ScheduledExecutorService timer) {
    HttpResponse<InputStream> response = client.openStream(application, lastId);
    try (InputStream body = new WatchedStream(response.body(), timer, SILENCE)) {
      reading(body);
      check(response, body, timer);
      var events = new EventReader(body, lastId);
      for (EventReader.Event event; (event = events.next()) != null; ) {
        // others are of a later version of the service
        if (event.type().equals("ring") && event.data() != null) take(event.data());
        lastId = event.id();
      }
      throw ClockdException.broken("the service ended the stream", true, false, null);
    } catch (IOException e) {
      throw Calls.broken("the service", e);
    } catch (IllegalArgumentException e) {
      throw ClockdException.unreadable(response.statusCode(), false, e);
    } finally {
      reading(null);
    }
  }

  /** Throws the refusal of a stream. It takes no longer than a try of a call. */
  private void check(
      HttpResponse<InputStream> response, InputStream body, ScheduledExecutorService timer)
      throws IOException {
    if (response.statusCode() != 200) {
      String retryAfter = response.headers().firstValue("Retry-After").orElse("");
      var late =
          timer.schedule(() -> close(body), client.tryTimeout().toMillis(), TimeUnit.MILLISECONDS);
      byte[] problem = body.readNBytes(Calls.RESPONSE_BYTES);
      late.cancel(false);
      throw Calls.refusal(new Calls.Response(response.statusCode(), retryAfter, problem));
    }
    String type = response.headers().firstValue("Content-Type").orElse("").split(";")[0].strip();
    if (!type.equals("text/event-stream"))
      throw new IllegalArgumentException("it is \"" + type + "\", not a stream of events");
    if (response.headers().firstValue("X-Clockd-Resumed").orElse("").equals("false")) {
      tell(
          "stream of "
              + application
              + ": this node of the service cannot resume the stream: rings without ackTimeout that"
              + " were on their way may be lost",
          null,
          null);
    }
  }

  /** Reserves rings for the handlers that have none. */
  private void reserve() {
    int free = awaitFree();
    long began = System.nanoTime();
    List<String> rings = client.reserveJson(application, Math.min(free, MOST_RESERVED));
    rings.forEach(this::take);
    if (rings.isEmpty() && System.nanoTime() - began < SHORT_RESERVE.toNanos()) {
      Client.pause(SHORT_RESERVE);
    }
  }

  /** Waits until a handler has no ring, and returns the number of such handlers. */
  private synchronized int awaitFree() {
    while (!stopped && waiting.size() + handling >= concurrency) await();
    if (stopped) throw ClockdException.broken("the consumer was stopped", false, false, null);
    return concurrency - waiting.size() - handling;
  }

  /** Reads a ring, and hands it over. */
  private void take(String json) {
    Ring ring;
    try {
      ring = Ring.fromJson(json);
    } catch (IllegalArgumentException e) {
      tell("a ring of " + application + " cannot be read: " + e.getMessage(), e, null);
      return;
    }
    take(ring);
  }

  /**
   * Hands over a ring. It waits while as many rings as may be read ahead wait for a handler, but
   * not after a stop.
   */
  private synchronized void take(Ring ring) {
    try {
      while (!pull && !stopped && waiting.size() >= readAhead) wait();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt(); // the consumer was stopped
    }
    arrived = true;
    waiting.add(ring);
    notifyAll();
  }

  private synchronized void await() {
    try {
      wait();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw ClockdException.broken("the thread was interrupted", false, false, e);
    }
  }

  /** Handles rings until the consumer is over. */
  private void handleRings() {
    for (Ring ring; (ring = begin()) != null; ) {
      try {
        handleOnce(ring);
      } catch (Throwable e) { // the thread is for the next rings too
        tell("ring " + ring.messageId() + " of " + application + ": " + describe(e), e, ring);
      } finally {
        end();
      }
    }
  }

  private synchronized Ring begin() {
    while (!over && waiting.isEmpty()) {
      try {
        wait();
      } catch (InterruptedException e) {
        // over says whether to end
      }
    }
    if (over) return null;
    Thread.interrupted(); // of another ring
    handling++;
    Ring ring = waiting.remove();
    notifyAll();
    return ring;
  }

  private synchronized void end() {
    handling--;
    notifyAll();
  }

  /**
   * Calls the handler, unless the ring is a copy, and answers. A copy whose answer was not accepted
   * repeats the answer.
   */
  private void handleOnce(Ring ring) {
    var known = memory.begin(ring.messageId());
    Answer unsent = known.unsent();
    if (known.state() == Memory.State.NEW) {
      unsent = answerOf(ring);
      memory.end(ring.messageId(), unsent);
    }
    if (unsent == null) return;
    String name =
        "ring " + ring.messageId() + " of " + ring.application() + "/" + ring.businessId();
    try {
      if (ring.ackTimeout() != null) client.answer(ring.application(), ring.messageId(), unsent);
      else if (!unsent.kind.equals("ack"))
        tell(
            name + ": " + unsent.kind + " has no effect, because the alarm has no ackTimeout",
            null,
            ring);
    } catch (RuntimeException failed) {
      tell("answer to " + name + ": " + failed.getMessage(), failed, ring);
      if (failed instanceof ClockdException refusal
          && (refusal.again() || refusal.getCause() instanceof InterruptedException)) return;
    }
    memory.end(ring.messageId(), null);
  }

  /** Returns the answer of the handler; null: there is none. */
  private Answer answerOf(Ring ring) {
    try {
      Answer answer = handler.apply(ring);
      Thread.interrupted(); // what the handler has left, or the end of the drain: it has its answer
      if (answer == null) return Answer.ack();
      return answer.kind.isEmpty() ? null : answer;
    } catch (Throwable e) { // an Error must not end the thread silently
      tell(
          "handler of ring "
              + ring.messageId()
              + " of "
              + ring.application()
              + "/"
              + ring.businessId()
              + ": "
              + describe(e),
          e,
          ring);
      return null;
    }
  }

  private static String describe(Throwable e) {
    try {
      return e.toString();
    } catch (Throwable worse) { // its text is the program's code
      return e.getClass().getName();
    }
  }

  private void tell(String text, Throwable cause, Ring ring) {
    try {
      onFault.accept(new Fault(text, cause, ring));
    } catch (Throwable e) { // the thread is for the next rings too
      LOGGER.log(Level.WARNING, "onFault has failed for: " + text, e);
    }
  }
}
