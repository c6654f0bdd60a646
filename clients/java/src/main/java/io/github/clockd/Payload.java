package io.github.clockd;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Objects;

/** What an alarm delivers: a value of JSON, a text, bytes, or nothing. */
public final class Payload {
  /** The form of a payload. */
  public enum Kind {
    /** No payload. */
    NONE,
    /** A value of JSON. */
    JSON,
    /** A text. */
    TEXT,
    /** Any bytes. */
    BYTES
  }

  /** No payload. */
  public static final Payload NONE = new Payload(Kind.NONE, new byte[0]);

  private final Kind kind;
  private final byte[] data;

  private Payload(Kind kind, byte[] data) {
    this.kind = kind;
    this.data = data;
  }

  /**
   * Returns a payload of JSON, as any library for JSON writes it. The call that sends it refuses
   * other texts.
   */
  public static Payload json(String json) {
    return new Payload(
        Kind.JSON, Values.checkUnicode("payload", json).getBytes(StandardCharsets.UTF_8));
  }

  /** Returns a payload of text. */
  public static Payload text(String text) {
    return new Payload(
        Kind.TEXT, Values.checkUnicode("text", text).getBytes(StandardCharsets.UTF_8));
  }

  /** Returns a payload of bytes. */
  public static Payload bytes(byte[] bytes) {
    return new Payload(Kind.BYTES, bytes.clone());
  }

  /** Returns the kind. */
  public Kind kind() {
    return kind;
  }

  /** Returns the payload as bytes. */
  public byte[] toBytes() {
    return data.clone();
  }

  /** Returns the payload as a text: JSON as the service wrote it. */
  @Override
  public String toString() {
    return new String(data, StandardCharsets.UTF_8);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Payload p && kind == p.kind && Arrays.equals(data, p.data);
  }

  @Override
  public int hashCode() {
    return Objects.hash(kind, Arrays.hashCode(data));
  }
}
