package io.github.clockd;

import static io.github.clockd.Service.SERVER;
import static io.github.clockd.Service.busy;
import static io.github.clockd.Service.faulty;
import static io.github.clockd.Service.response;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Consumers, with streams that are cut and a clockd that is killed. */
@Timeout(120)
class ConsumerTest {
  private static final AlarmSpec SOON = AlarmSpec.after(Duration.ZERO).onlyIf(Condition.ABSENT);
  private static final AlarmSpec ACKED = SOON.ackTimeout(Duration.ofHours(1));
  private static final Function<Ring, Answer> DONE = ring -> null;

  private final String app = Service.application();
  private final List<Consuming> started = new ArrayList<>();

  /** A consumer that a test has started. It ends with the test. */
  private final class Consuming {
    final BlockingQueue<Ring> rings = new LinkedBlockingQueue<>();
    final BlockingQueue<Fault> faults = new LinkedBlockingQueue<>();
    final Consumer consumer;
    final Thread thread;
    volatile Throwable error;

    Consuming(
        Client client,
        String application,
        Function<Ring, Answer> handler,
        UnaryOperator<Consumer.Builder> options) {
      var builder =
          client.consumer(
              application,
              ring -> {
                rings.add(ring);
                return handler.apply(ring);
              });
      consumer = options.apply(builder.onFault(faults::add)).build();
      thread =
          new Thread(
              () -> {
                try {
                  consumer.run();
                } catch (RuntimeException e) {
                  error = e;
                }
              });
      thread.start();
      started.add(this);
    }

    void end() throws InterruptedException {
      thread.join();
    }

    void stop() throws InterruptedException {
      consumer.stop();
      end();
    }
  }

  private Consuming consume(String url, Function<Ring, Answer> handler) {
    return new Consuming(Service.builder(url).build(), app, handler, b -> b);
  }

  @AfterEach
  void stopConsumers() throws InterruptedException {
    for (Consuming c : started) c.stop();
  }

  private void set(AlarmSpec spec, String... ids) {
    for (String id : ids) Service.client().set(app, id, spec);
  }

  /** Waits until the alarm has the state. */
  private static Alarm awaitAlarm(String url, String app, String id, String state) {
    var client = Service.builder(url).build();
    while (true) {
      Alarm alarm = client.get(app, id);
      if (alarm.state().equals(state)) return alarm;
    }
  }

  private Alarm awaitAlarm(String id, String state) {
    return awaitAlarm(SERVER, app, id, state);
  }

  @Test
  void ringsArriveAsTheyWereSet() throws InterruptedException {
    Map<String, Payload> payloads =
        Map.of(
            "json",
            Payload.json("{\"order\":4711}"),
            "text",
            Payload.text("a\nb"),
            "bytes",
            Payload.bytes(new byte[] {0, -1}));
    payloads.forEach((id, payload) -> set(SOON.payload(payload), id));
    var consuming = consume(SERVER, DONE);
    for (int n = 0; n < 3; n++) {
      Ring ring = consuming.rings.take();
      assertEquals(payloads.get(ring.businessId()), ring.payload());
      assertEquals(
          List.of(app, 1L, 1L), List.of(ring.application(), ring.generation(), ring.ringNo()));
      assertNull(ring.ackTimeout());
    }
  }

  @Test
  void handlerSaysHowRingsAreAnswered() throws InterruptedException {
    Function<Ring, Answer> handler =
        ring ->
            switch (ring.businessId()) {
              case "fails" -> throw new IllegalStateException("no database");
              case "buried" -> Answer.bury().reason("broken").by("test");
              case "released" -> Answer.release(Duration.ofHours(1)).reason("later");
              default -> null;
            };
    var consuming = new Consuming(Service.client(), app, handler, b -> b.concurrency(4));
    set(ACKED, "done", "buried", "released", "fails");
    assertEquals("worker-7", awaitAlarm("done", "rung").answeredBy());
    assertEquals("test", awaitAlarm("buried", "dead").answeredBy());
    assertEquals("release", awaitAlarm("released", "scheduled").answer());
    Fault fault = consuming.faults.take();
    assertEquals("fails", fault.ring().businessId());
    assertInstanceOf(IllegalStateException.class, fault.cause());
    assertNull(awaitAlarm("fails", "ringing").answer());
  }

  @Test
  void answerWithoutEffectIsTold() throws InterruptedException {
    var consuming = consume(SERVER, ring -> Answer.bury());
    set(SOON, "x");
    assertTrue(consuming.faults.take().text().contains("bury has no effect"));
  }

  // The stream is cut in the middle of a ring. The next one resumes it, so the ring comes again at
  // once.
  @Test
  void consumerGoesOnAfterCutStreams() throws InterruptedException {
    String url = faulty("cut", response(503, "<html>", Map.of()), "stall", "half-ring");
    var client = Service.builder(url).tryTimeout(Duration.ofSeconds(2)).build();
    var consuming = new Consuming(client, app, DONE, b -> b);
    // java.net.http itself repeats a GET whose connection is cut
    for (String text : List.of("status 503", "not respond within 2.0 s")) {
      String got = consuming.faults.take().text();
      assertTrue(got.contains(text), got);
    }
    set(ACKED, "x");
    assertEquals(1, consuming.rings.take().ringNo());
    assertEquals(1, awaitAlarm("x", "rung").ringNo());
  }

  @Test
  void eachMessageIdIsHandledOnce() throws InterruptedException {
    var consuming = consume(faulty("copies"), DONE);
    set(ACKED, "a", "b");
    awaitAlarm("b", "rung");
    set(SOON, "c"); // behind the copies
    Set<String> ids = new TreeSet<>();
    for (int n = 0; n < 3; n++) ids.add(consuming.rings.take().businessId());
    consuming.stop();
    assertEquals(Set.of("a", "b", "c"), ids);
    assertEquals(0, consuming.rings.size());
    assertNull(consuming.error);
  }

  @Test
  void consumerOutlastsAKilledClockd() throws InterruptedException {
    String url = Service.start();
    var client = Service.builder(url).build();
    var consuming = new Consuming(client, "shop", DONE, b -> b);
    client.set("shop", "before", ACKED);
    assertEquals("before", consuming.rings.take().businessId());
    awaitAlarm(url, "shop", "before", "rung");
    Service.kill(url);
    assertTrue(consuming.faults.take().text().contains("stream of shop"));
    Service.startAgain(url);
    client.set("shop", "after", ACKED);
    assertEquals("after", consuming.rings.take().businessId());
    awaitAlarm(url, "shop", "after", "rung");
    consuming.stop();
    Service.kill(url);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 3})
  void workerReservesRings(int concurrency) throws InterruptedException {
    Service.target(app, "pull");
    var ids = new TreeSet<>(Set.of("a", "b", "c", "d", "e"));
    // after a second the ring of the lost response rings again
    set(SOON.ackTimeout(Duration.ofSeconds(1)), ids.toArray(String[]::new));
    var client = Service.builder(faulty("cut", "lose", busy("overloaded"))).build();
    var consuming = new Consuming(client, app, DONE, b -> b.pull().concurrency(concurrency));
    while (!ids.isEmpty()) ids.remove(consuming.rings.take().businessId());
  }

  @Test
  void refusalEndsTheConsumer() throws InterruptedException {
    for (String url :
        List.of(
            faulty(response(403, "<html>", Map.of())), faulty(response(200, "<html>", Map.of())))) {
      var consuming = consume(url, DONE);
      consuming.end();
      assertEquals("", assertInstanceOf(ClockdException.class, consuming.error).code());
    }
    var wrong = new Consuming(Service.client(), "-", DONE, b -> b);
    wrong.end();
    assertEquals(
        "invalid_application", assertInstanceOf(ClockdException.class, wrong.error).code());
  }

  @Test
  void ringsThatWereReadAreHandledAfterTheStop() throws InterruptedException {
    var goOn = new CountDownLatch(1);
    set(ACKED, "a");
    var consuming =
        consume(
            SERVER,
            ring -> {
              await(goOn);
              return null;
            });
    consuming.rings.take();
    consuming.consumer.stop();
    goOn.countDown();
    consuming.end();
    assertNull(consuming.error);
    assertEquals("ack", awaitAlarm("a", "rung").answer());
  }

  @Test
  void ringsThatAreLeftAreCounted() throws InterruptedException {
    var interrupted = new CountDownLatch(1);
    set(ACKED, "a");
    var consuming =
        new Consuming(
            Service.client(),
            app,
            ring -> {
              try {
                new CountDownLatch(1).await();
              } catch (InterruptedException e) {
                interrupted.countDown();
              }
              return Answer.NONE;
            },
            b -> b.drain(Duration.ofMillis(50)));
    consuming.rings.take();
    consuming.stop();
    assertEquals(
        "rings of " + app + " that were read and not handled within 0.05 s: 1",
        consuming.error.getMessage());
    interrupted.await();
  }

  @Test
  void interruptOfItsThreadEndsTheConsumer() throws InterruptedException {
    set(ACKED, "a");
    var consuming = consume(SERVER, DONE);
    awaitAlarm("a", "rung");
    consuming.thread.interrupt();
    consuming.end();
    assertNull(consuming.error);
    consuming.consumer.stop();
  }

  private static Map<String, Object> stream(List<String> rings) {
    var events = new StringBuilder();
    for (int n = 0; n < rings.size(); n++) {
      events
          .append("event: ring\nid: ")
          .append(n)
          .append("\ndata: ")
          .append(rings.get(n))
          .append("\n\n");
    }
    return response(200, events.toString(), Map.of("Content-Type", "text/event-stream"));
  }

  @Test
  void ringThatCannotBeReadIsSkipped() throws InterruptedException {
    String late =
        "{\"message_id\":\"1.1.1\",\"business_id\":\"x\",\"ack_timeout\":\"99999999999999999h\"}";
    var rings = List.of("{garbage", "null", "{}", "[".repeat(99_999), late);
    var consuming = consume(faulty(stream(rings)), DONE);
    for (int n = 0; n < rings.size(); n++) {
      assertTrue(consuming.faults.take().text().contains("cannot be read"));
    }
    set(ACKED, "x");
    assertEquals("x", consuming.rings.take().businessId());
  }

  @Test
  void ringsBeyondTheReadAheadAreHandledAfterTheStop() throws InterruptedException {
    List<String> rings = new ArrayList<>(), want = new ArrayList<>(), got = new ArrayList<>();
    for (int n = 0; n < 10; n++) {
      want.add(String.valueOf(n));
      rings.add(
          "{\"message_id\":\"" + n + ".1.1\",\"application\":\"x\",\"business_id\":\"" + n + "\"}");
    }
    var goOn = new CountDownLatch(1);
    Function<Ring, Answer> handler =
        ring -> {
          await(goOn);
          return null;
        };
    var client = Service.builder(faulty(stream(rings))).build();
    var consuming = new Consuming(client, app, handler, b -> b.readAhead(2));
    got.add(consuming.rings.take().businessId());
    consuming.consumer.stop();
    goOn.countDown();
    consuming.end();
    consuming.rings.forEach(ring -> got.add(ring.businessId()));
    assertEquals(want, got);
    assertNull(consuming.error);
  }

  @Test
  void handlerMayThrowAnError() throws InterruptedException {
    var consuming =
        consume(
            SERVER,
            ring -> {
              if (ring.businessId().equals("a")) throw new StackOverflowError();
              return null;
            });
    set(ACKED, "a");
    assertEquals("a", consuming.faults.take().ring().businessId());
    set(ACKED, "b");
    awaitAlarm("b", "rung");
  }

  /** An exception whose text is code that fails. */
  private static final class Untold extends RuntimeException {
    private static final long serialVersionUID = 1;

    @Override
    public String getMessage() {
      throw new IllegalStateException("no text");
    }
  }

  @Test
  void nothingThatAHandlerLeavesHarmsTheNextRing() throws InterruptedException {
    var calls = new AtomicInteger();
    Function<Ring, Answer> handler =
        ring -> {
          if (calls.incrementAndGet() % 2 == 0) throw new Untold();
          Thread.currentThread().interrupt();
          return Answer.ack();
        };
    var c =
        new Consuming(
            Service.builder(SERVER).build(),
            app,
            handler,
            b ->
                b.onFault(
                    fault -> {
                      throw new AssertionError(fault.text());
                    }));
    set(ACKED, "a", "b", "c", "d", "e");
    for (int i = 0; i < 5; i++) c.rings.take();
    c.stop();
    assertNull(c.error);
    assertEquals(5, calls.get());
    int acked = 0;
    for (Alarm alarm : Service.builder(SERVER).build().alarms(app, Filter.ALL)) {
      if ("ack".equals(alarm.answer())) acked++;
    }
    assertEquals(3, acked);
  }

  @Test
  void aRingThatCannotBeReadHidesNoOther() throws Exception {
    Service.target(app, "pull");
    String digits = "1".repeat(1100); // more than Gson reads
    Service.put(app, "poison", "{\"delay\":0,\"ack_timeout\":3600000,\"payload\":" + digits + "}");
    set(ACKED, "good", "better");
    var c = new Consuming(Service.builder(SERVER).build(), app, DONE, b -> b.pull().concurrency(4));
    assertEquals(
        Set.of("better", "good"), Set.of(c.rings.take().businessId(), c.rings.take().businessId()));
    while (!c.faults.take().text().contains("cannot be read")) {
      // the settings need a moment
    }
    c.stop();
    assertNull(c.error);
  }

  @Test
  void consumerWithoutASenseIsRefused() throws InterruptedException {
    var client = Service.builder(SERVER).build();
    assertThrows(
        ClockdException.class,
        () -> client.consumer(app, DONE).drain(Duration.ofMillis(-1)).build());
    assertThrows(ClockdException.class, () -> client.consumer("", DONE).build());
    var c = new Consuming(client, app, DONE, b -> b.drain(ChronoUnit.FOREVER.getDuration()));
    c.stop();
    assertNull(c.error);
  }

  @Test
  void reservesWithoutRingsDoNotSpin() throws InterruptedException {
    Service.target(app, "pull");
    var empty = response(200, "{\"rings\":[]}", Map.of());
    String url = faulty(empty, empty, empty);
    long began = System.nanoTime();
    new Consuming(Service.builder(url).build(), app, DONE, Consumer.Builder::pull);
    while (Service.asked(url).size() < 3) Thread.sleep(10);
    assertTrue(System.nanoTime() - began > 1_900_000_000L); // the timer is the consumer's own
  }

  @Test
  void closeWaitsForTheHandlers() throws InterruptedException {
    set(ACKED, "a");
    var consuming = consume(SERVER, DONE);
    consuming.rings.take();
    consuming.consumer.close();
    assertEquals("rung", Service.client().get(app, "a").state());
    consuming.consumer.close();
  }

  @Test
  void consumerThatWasStoppedBeforeReturns() {
    var consumer = Service.client().consumer(app, DONE).build();
    consumer.stop();
    consumer.run();
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
