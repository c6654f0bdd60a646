// Receives an application's rings from clockd's HTTP stream: java StreamRings.java [APPLICATION]
import java.io.*;
import java.net.URI;
import java.net.http.*;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;

public class StreamRings {
  static final HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(10)).build();
  static final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
  static final Set<String> handled = new HashSet<>(); // in production: a table, written in the transaction of the work
  static String ringsURL;
  static String lastID; // of the last event; clockd goes on after it

  static void handle(Map<String, String> ring) throws InterruptedException {
    String id = ring.get("message_id"), businessID = ring.get("business_id");
    if (!handled.contains(id)) { // a copy of a ring has the same message id
      String payload = ring.getOrDefault("payload", ring.getOrDefault("text", ring.getOrDefault("base64", "")));
      System.out.println(businessID + " " + payload); // the work
      handled.add(id);
    }
    if (!ring.containsKey("ack_timeout")) return;
    try { // a copy is answered too, because the first answer may be lost
      HttpRequest.Builder ack = request("/" + id + "/ack").timeout(Duration.ofSeconds(10));
      HttpResponse<String> response = client.send(ack.POST(BodyPublishers.noBody()).build(), BodyHandlers.ofString());
      // stale_ring: the alarm has an answer, or has rung again
      if (response.statusCode() != 200 && !"stale_ring".equals(fields(response.body()).get("code"))) {
        throw new IOException(response.statusCode() + " " + response.body());
      }
    } catch (IOException e) {
      System.err.println(businessID + " rings again: " + e);
    }
  }

  static void consume() throws IOException, InterruptedException {
    HttpRequest.Builder get = request("").timeout(Duration.ofSeconds(60)); // until the headers of the response
    if (lastID != null) get.header("Last-Event-ID", lastID);
    HttpResponse<InputStream> response = client.send(get.build(), BodyHandlers.ofInputStream());
    try (InputStream body = response.body()) {
      if (response.statusCode() != 200) {
        String problem = response.statusCode() + " " + new String(body.readAllBytes(), StandardCharsets.UTF_8);
        if (response.statusCode() == 401 || response.statusCode() == 403) {
          System.err.println(problem);
          System.exit(1);
        }
        throw new IOException(problem);
      }
      BufferedReader lines = new BufferedReader(new InputStreamReader(body, StandardCharsets.UTF_8));
      Map<String, String> event = new HashMap<>();
      for (String line; (line = lineWithin(60, lines, body)) != null; ) { // a comment comes every 15 s
        String[] field = line.split(": ", 2);
        if (field.length == 2) event.put(field[0], field[1]);
        if (!line.isEmpty()) continue;
        if (event.containsKey("data")) handle(fields(event.get("data"))); // the first event has none
        lastID = event.getOrDefault("id", lastID);
        event.clear();
      }
    }
    throw new IOException("the stream ended");
  }

  /** The next line. The end of the time closes the body. */
  static String lineWithin(int seconds, BufferedReader lines, InputStream body) throws IOException {
    Future<?> end = timer.schedule(() -> { body.close(); return null; }, seconds, TimeUnit.SECONDS);
    try {
      return lines.readLine();
    } finally {
      end.cancel(false);
    }
  }

  static HttpRequest.Builder request(String path) {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(ringsURL + path));
    String token = System.getenv().getOrDefault("CLOCKD_TOKEN", "");
    return token.isEmpty() ? request : request.header("Authorization", "Bearer " + token);
  }

  /** The fields of a JSON object. The JDK has no JSON parser: in production, use a library. Escapes stay as they are. */
  static Map<String, String> fields(String json) {
    Map<String, String> fields = new HashMap<>();
    String name = "";
    boolean quoted = false;
    for (int i = 0, begin = 0, depth = 0; i < json.length(); i++) {
      char c = json.charAt(i);
      if (quoted) {
        if (c == '\\') i++;
        quoted = c != '"';
        continue;
      }
      quoted = c == '"';
      if (depth == 1 && (c == ':' || c == ',' || c == '}')) {
        String part = json.substring(begin, i).strip();
        boolean bare = part.startsWith("\"") && (c == ':' || !name.equals("payload")); // a payload stays JSON
        if (bare) part = part.substring(1, part.length() - 1);
        if (c == ':') name = part; else fields.put(name, part);
        begin = i + 1;
      }
      if (c == '{' || c == '[') depth++;
      if (c == '}' || c == ']') depth--;
      if (depth == 1 && begin == 0) begin = i + 1;
    }
    return fields;
  }

  public static void main(String[] args) throws InterruptedException {
    String server = System.getenv().getOrDefault("CLOCKD_SERVER", "http://127.0.0.1:8080").replaceFirst("/$", "");
    String application = args.length > 0 ? args[0] : "shop";
    ringsURL = server + "/v1/applications/" + application + "/rings";
    while (true) {
      try {
        consume();
      } catch (IOException e) {
        System.err.println("connection failed: " + e);
      }
      Thread.sleep(1000);
    }
  }
}
