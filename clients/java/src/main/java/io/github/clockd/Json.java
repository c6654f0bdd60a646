package io.github.clockd;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.Strictness;
import com.google.gson.TypeAdapter;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import java.io.IOException;
import java.io.StringReader;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.function.Function;

/**
 * Reads an object of JSON that the service wrote. A member that is missing, or of another type, has
 * the default.
 */
final class Json {
  private static final TypeAdapter<JsonElement> ELEMENTS = new Gson().getAdapter(JsonElement.class);

  /** More than the service takes, 500. */
  private static final int NESTING = 1000;

  private final JsonObject object;

  private Json(JsonObject object) {
    this.object = object;
  }

  /** Reads a text that is one value of JSON. Other texts are a JsonParseException. */
  static JsonElement parse(String text) {
    try (var reader = new JsonReader(new StringReader(text))) {
      reader.setStrictness(Strictness.STRICT);
      reader.setNestingLimit(NESTING);
      JsonElement element = ELEMENTS.read(reader);
      if (reader.peek() != JsonToken.END_DOCUMENT)
        throw new JsonParseException("it has more than one value");
      return element;
    } catch (IOException | IllegalStateException | NumberFormatException e) {
      throw new JsonParseException(e.getMessage(), e);
    }
  }

  /**
   * Returns the rings of a reserve, each as a text. One that cannot be read, for example because a
   * number has more than a thousand digits, does not hide the others.
   */
  static List<String> rings(String text) {
    try {
      return object(parse(text)).required("rings", JsonElement::toString);
    } catch (JsonParseException e) {
      List<String> each = objects(text);
      if (each.isEmpty()) throw e;
      return each;
    }
  }

  /** Returns each object in an array of an object, as a text. */
  private static List<String> objects(String text) {
    List<String> objects = new ArrayList<>();
    boolean quoted = false;
    int depth = 0, begin = 0;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (quoted) {
        if (c == '\\') i++;
        else quoted = c != '"';
        continue;
      }
      switch (c) {
        case '"' -> quoted = true;
        case '{', '[' -> {
          if (depth++ == 2) begin = i;
        }
        case '}', ']' -> {
          if (--depth == 2) objects.add(text.substring(begin, i + 1));
        }
        default -> {}
      }
    }
    return objects;
  }

  /** Returns an object that has texts of these names. Other values are a JsonParseException. */
  static Json object(JsonElement element, String... texts) {
    if (element == null || !element.isJsonObject()) throw new JsonParseException("it is no object");
    var json = new Json(element.getAsJsonObject());
    for (String name : texts) {
      if (json.text(name).isEmpty()) throw new JsonParseException("it has no " + name);
    }
    return json;
  }

  /** Returns the object as the service wrote it, without its layout. */
  String raw() {
    return object.toString();
  }

  /** Returns a text; the default is empty. */
  String text(String name) {
    JsonElement e = object.get(name);
    return e != null && e.isJsonPrimitive() && e.getAsJsonPrimitive().isString()
        ? e.getAsString()
        : "";
  }

  /** Returns a text; the default is null. */
  String textOrNull(String name) {
    String text = text(name);
    return text.isEmpty() ? null : text;
  }

  /** Returns a number; the default is 0. */
  long number(String name) {
    JsonElement e = object.get(name);
    return e != null && e.isJsonPrimitive() && e.getAsJsonPrimitive().isNumber()
        ? e.getAsLong()
        : 0;
  }

  /** Returns a truth; the default is false. */
  boolean truth(String name) {
    JsonElement e = object.get(name);
    return e != null && e.isJsonPrimitive() && e.getAsBoolean();
  }

  /** Returns a time; the default is null. */
  Instant instant(String name) {
    String text = textOrNull(name);
    return text == null ? null : Values.readInstant(text);
  }

  /** Returns a duration; the default is null. */
  Duration duration(String name) {
    String text = textOrNull(name);
    return text == null ? null : Values.readDuration(text);
  }

  /** Returns a member; null if it is missing or null. */
  JsonElement element(String name) {
    JsonElement e = object.get(name);
    return e == null || e.isJsonNull() ? null : e;
  }

  /** Returns what the elements of an array hold; the default is empty. */
  <T> List<T> list(String name, Function<JsonElement, T> read) {
    JsonElement e = element(name);
    return e == null ? List.of() : elements(e, name, read);
  }

  /** Returns what the elements of an array hold. A missing array is a JsonParseException. */
  <T> List<T> required(String name, Function<JsonElement, T> read) {
    return elements(element(name), name, read);
  }

  private static <T> List<T> elements(JsonElement e, String name, Function<JsonElement, T> read) {
    if (e == null || !e.isJsonArray()) throw new JsonParseException("it has no " + name);
    JsonArray array = e.getAsJsonArray();
    List<T> list = new ArrayList<>(array.size());
    array.forEach(element -> list.add(read.apply(element)));
    return list;
  }

  /** Returns the payload of an alarm or a ring. */
  Payload payload() {
    if (object.has("payload")) return Payload.json(object.get("payload").toString());
    if (object.has("text")) return Payload.text(text("text"));
    return object.has("base64")
        ? Payload.bytes(Base64.getDecoder().decode(text("base64")))
        : Payload.NONE;
  }
}
