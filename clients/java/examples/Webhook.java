import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.github.clockd.*;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Receives rings as signed requests. */
class Webhook {
  // "clockd application set" printed the secret
  static final Verifier verifier = new Verifier(System.getenv("SECRET"));
  // in production: a table, written in the transaction of the work
  static final Set<String> seen = ConcurrentHashMap.newKeySet();

  public static void main(String[] args) throws IOException {
    int port = Integer.parseInt(System.getenv().getOrDefault("PORT", "8081"));
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
    server.createContext("/", Webhook::ring);
    server.start();
    System.out.println("listening on port " + server.getAddress().getPort());
  }

  static void ring(HttpExchange exchange) throws IOException {
    try (exchange) {
      exchange.sendResponseHeaders(handle(exchange), -1);
    }
  }

  /** Returns the status of the response. */
  static int handle(HttpExchange exchange) throws IOException {
    var headers = exchange.getRequestHeaders();
    byte[] body = exchange.getRequestBody().readAllBytes();
    String messageId;
    try {
      messageId = verifier.verify(headers::getFirst, body);
    } catch (WebhookException e) {
      return 401;
    }
    if (seen.add(messageId)) { // the work
      // URLDecoder reads forms, where + is a blank
      String escaped = headers.getFirst("x-clockd-business-id").replace("+", "%2B");
      String id = URLDecoder.decode(escaped, StandardCharsets.UTF_8);
      System.out.println(id + " " + new String(body, StandardCharsets.UTF_8));
    }
    return 204;
  }
}
