package io.github.clockd;

import static io.github.clockd.Service.SERVER;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The programs of the README, which are the files in examples/. */
@Timeout(120)
class ExamplesTest {
  @Test
  void readmeHasTheExamples() throws IOException {
    var blocks = new TreeSet<String>();
    var block =
        Pattern.compile("```java\n(.*?)```", Pattern.DOTALL)
            .matcher(Files.readString(Path.of("README.md")));
    while (block.find()) blocks.add(block.group(1));
    var examples = new TreeSet<String>();
    for (File example : new File("examples").listFiles())
      examples.add(Files.readString(example.toPath()));
    assertEquals(examples, blocks);
  }

  /** A program that runs. */
  private record Program(Process process, BufferedReader out) implements AutoCloseable {
    static Program start(String name, Map<String, String> environment) throws IOException {
      String gson =
          new File(Gson.class.getProtectionDomain().getCodeSource().getLocation().getPath())
              .getPath();
      var java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
      var builder =
          new ProcessBuilder(
              java,
              "-cp",
              "target/classes" + File.pathSeparator + gson,
              "examples/" + name + ".java");
      builder.environment().put("CLOCKD_SERVER", SERVER);
      builder.environment().putAll(environment);
      var process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
      return new Program(process, process.inputReader());
    }

    String line() throws IOException {
      return out.readLine();
    }

    @Override
    public void close() {
      process.destroyForcibly();
    }
  }

  @Test
  void setAndCancel() throws Exception {
    try (var program = Program.start("SetAndCancel", Map.of())) {
      assertTrue(program.line().startsWith("rings at 2"));
      assertEquals("cancelled", program.line());
      assertEquals(0, program.process.waitFor());
    }
  }

  @Test
  void repeating() throws Exception {
    try (var program = Program.start("Repeating", Map.of())) {
      assertEquals("daily scheduled", program.line());
      assertEquals("heartbeat scheduled", program.line());
      assertTrue(program.line().contains("unknown_alarm"));
      assertEquals(0, program.process.waitFor());
    }
    Service.client().cancel("reports", "daily");
    Service.client().cancel("reports", "heartbeat");
  }

  @ParameterizedTest
  @CsvSource({"Consume, shop", "Worker, mail"})
  void receivers(String name, String app) throws Exception {
    if (name.equals("Worker")) Service.target(app, "pull");
    try (var program = Program.start(name, Map.of())) {
      var spec =
          AlarmSpec.after(Duration.ZERO)
              .payload(Payload.json("{\"order\":4711}"))
              .ackTimeout(Duration.ofHours(1));
      Service.client().set(app, "example", spec);
      assertEquals("example {\"order\":4711}", program.line());
      while (!Service.client().get(app, "example").state().equals("rung")) Thread.onSpinWait();
      program.process.toHandle().destroy(); // SIGTERM
      assertEquals(143, program.process.waitFor());
    }
  }

  @Test
  void webhook() throws Exception {
    byte[] key = Base64.getDecoder().decode("C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    String secret = "whsec_" + Base64.getEncoder().encodeToString(key), body = "{\"order\":4711}";
    String now = String.valueOf(Instant.now().getEpochSecond());
    var mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(key, "HmacSHA256"));
    byte[] signature = mac.doFinal(("1.1.1." + now + "." + body).getBytes(StandardCharsets.UTF_8));
    String signed = "v1," + Base64.getEncoder().encodeToString(signature);
    try (var program = Program.start("Webhook", Map.of("SECRET", secret, "PORT", "0"))) {
      String port = program.line().replaceAll(".* ", "");
      assertEquals(204, post(port, now, signed, body));
      assertEquals(401, post(port, now, "v1,AAAA", body));
      assertEquals(204, post(port, now, signed, body));
      program.process.toHandle().destroy();
      assertEquals("a/b " + body, program.line()); // once
      assertEquals(null, program.line());
    }
  }

  private static int post(String port, String now, String signature, String body) throws Exception {
    var request =
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port))
            .headers(
                "webhook-id",
                "1.1.1",
                "webhook-timestamp",
                now,
                "webhook-signature",
                signature,
                "x-clockd-business-id",
                "a%2Fb")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
    return HttpClient.newHttpClient()
        .send(request, HttpResponse.BodyHandlers.discarding())
        .statusCode();
  }
}
