package io.github.clockd;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** The clockd that client/internal/faulty/run has started for the tests. */
final class Service {
  static final String SERVER = System.getenv().getOrDefault("CLOCKD_TEST_SERVER", "");

  private static final Gson GSON = new Gson();
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  private Service() {}

  /** Asks the program that runs the tests for something. */
  private static JsonElement wish(String name, Object body) {
    var url = URI.create(System.getenv("CLOCKD_TEST_CONTROL") + "/" + name);
    var request =
        HttpRequest.newBuilder(url)
            .POST(HttpRequest.BodyPublishers.ofString(GSON.toJson(body)))
            .build();
    try {
      var response = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
      if (response.statusCode() != 200) throw new AssertionError(response.body());
      return Json.parse(response.body());
    } catch (IOException | InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** Sets an alarm that the client would refuse. */
  static void put(String application, String businessId, String body) {
    var url = URI.create(SERVER + "/v1/applications/" + application + "/alarms/" + businessId);
    var request =
        HttpRequest.newBuilder(url)
            .header("Content-Type", "application/json")
            .PUT(HttpRequest.BodyPublishers.ofString(body))
            .build();
    try {
      var response = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
      if (response.statusCode() != 201) throw new AssertionError(response.body());
    } catch (IOException | InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private static String url(JsonElement reference) {
    return reference.getAsJsonObject().get("url").getAsString();
  }

  /** Returns the URL of a server whose first requests meet these faults: names, or responses. */
  static String faulty(Object... faults) {
    return url(wish("faulty", faults));
  }

  static Map<String, Object> response(int status, String body, Map<String, String> headers) {
    return Map.of("status", status, "body", body, "headers", headers);
  }

  /** Returns the response of a service without room. */
  static Map<String, Object> busy(String code) {
    return response(
        503, "{\"code\":\"" + code + "\",\"detail\":\"busy\"}", Map.of("Retry-After", "0"));
  }

  /** Returns the requests of a faulty server. */
  static List<String> asked(String url) {
    List<String> requests = new ArrayList<>();
    wish("asked", Map.of("url", url))
        .getAsJsonArray()
        .forEach(request -> requests.add(request.getAsString()));
    return requests;
  }

  /** Starts a clockd of the caller alone. */
  static String start() {
    return url(wish("start", new JsonObject()));
  }

  static void startAgain(String killed) {
    wish("start", Map.of("url", killed));
  }

  static void kill(String url) {
    wish("kill", Map.of("url", url));
  }

  /** Changes the target of an application. */
  static void target(String application, String target) {
    wish("target", Map.of("application", application, "target", target));
  }

  /** Returns an application that no other test has. */
  static String application() {
    return "java-" + UUID.randomUUID();
  }

  static Client.Builder builder(String url) {
    return Client.builder().server(url).name("worker-7");
  }

  static Client client() {
    return builder(SERVER).build();
  }
}
