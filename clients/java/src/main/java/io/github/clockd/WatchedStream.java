package io.github.clockd;

import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** Closes a stream whose read takes too long. */
final class WatchedStream extends FilterInputStream {
  private final ScheduledExecutorService timer;
  private final Duration silence;
  private volatile boolean silent;

  WatchedStream(InputStream stream, ScheduledExecutorService timer, Duration silence) {
    super(stream);
    this.timer = timer;
    this.silence = silence;
  }

  @Override
  public int read(byte[] bytes, int begin, int length) throws IOException {
    Future<?> end = timer.schedule(this::giveUp, silence.toMillis(), TimeUnit.MILLISECONDS);
    try {
      return super.read(bytes, begin, length);
    } catch (IOException e) {
      if (silent)
        throw new IOException("the service was silent for " + silence.toSeconds() + " s", e);
      throw e;
    } finally {
      end.cancel(false);
    }
  }

  private Void giveUp() throws IOException {
    silent = true;
    in.close();
    return null;
  }
}
