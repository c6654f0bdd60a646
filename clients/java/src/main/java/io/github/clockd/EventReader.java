package io.github.clockd;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** Reads server-sent events. An event without its blank line is not complete. */
final class EventReader {
  /** Size of the largest event that is read, in bytes. */
  private static final int EVENT_BYTES = 16 << 20;

  /**
   * An event with data or an id.
   *
   * @param id id of this event, or of the last one before it that has an id; empty: none has one
   * @param data null: the event has only an id
   */
  record Event(String type, String id, String data) {}

  private final InputStream stream;
  private final byte[] part = new byte[64 << 10];
  private int begin, end; // of the unread bytes of the part
  private String lastId;

  /** Reads a stream that goes on after the event with an id, which may be empty. */
  EventReader(InputStream stream, String lastId) {
    this.stream = stream;
    this.lastId = lastId;
  }

  /**
   * Returns the next event; null at the end of the stream. An event that is too large is an
   * IllegalArgumentException.
   */
  Event next() throws IOException {
    String type = "", id = lastId;
    StringBuilder data = null;
    for (String line; (line = line()) != null; ) {
      if (line.isEmpty()) {
        boolean complete = data != null || !id.equals(lastId);
        lastId = id;
        if (complete) return new Event(type, id, data == null ? null : data.toString());
        type = "";
        continue;
      }
      int colon = line.indexOf(':'); // a comment has an empty name
      String name = colon < 0 ? line : line.substring(0, colon);
      String value = colon < 0 ? "" : line.substring(colon + 1);
      if (value.startsWith(" ")) value = value.substring(1);
      switch (name) {
        case "event" -> type = value;
        case "id" -> id = value.indexOf('\0') < 0 ? value : id;
        case "data" -> {
          data = data == null ? new StringBuilder() : data.append('\n');
          if (data.length() + value.length() > EVENT_BYTES) throw tooLarge();
          data.append(value);
        }
        default -> {}
      }
    }
    return null;
  }

  /** Returns the next line without its line break; null at the end of the stream. */
  private String line() throws IOException {
    var line = new ByteArrayOutputStream();
    while (true) {
      for (int i = begin; i < end; i++) {
        if (part[i] != '\n') continue;
        line.write(part, begin, i - begin);
        begin = i + 1;
        String text = line.toString(StandardCharsets.UTF_8);
        return text.endsWith("\r") ? text.substring(0, text.length() - 1) : text;
      }
      line.write(part, begin, end - begin);
      if (line.size() > EVENT_BYTES) throw tooLarge();
      begin = 0;
      end = stream.read(part);
      if (end < 0) return null;
    }
  }

  private static IllegalArgumentException tooLarge() {
    return new IllegalArgumentException("an event has more than " + EVENT_BYTES + " bytes");
  }
}
