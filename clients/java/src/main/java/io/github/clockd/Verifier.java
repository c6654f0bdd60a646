package io.github.clockd;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.function.UnaryOperator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Checks that requests are webhooks that were signed with any of the secrets, as Standard Webhooks
 * says (https://www.standardwebhooks.com). Give it the old and the new secret while a secret is
 * changed. It may be used by several threads.
 */
public final class Verifier {
  private static final String PREFIX = "whsec_";

  private final List<byte[]> keys = new ArrayList<>();
  private final Duration tolerance;

  /**
   * Takes secrets as {@code clockd application} prints them, and webhooks of the last or next five
   * minutes.
   */
  public Verifier(String... secrets) {
    this(Duration.ofMinutes(5), secrets);
  }

  /** Takes webhooks whose time differs from now by at most the tolerance. */
  public Verifier(Duration tolerance, String... secrets) {
    if (secrets.length == 0)
      throw new IllegalArgumentException("a verifier needs at least one secret");
    if (tolerance.isNegative())
      throw new IllegalArgumentException("the tolerance must not be negative");
    for (String secret : secrets) keys.add(key(secret));
    this.tolerance = Values.atMostAYear(tolerance);
  }

  /** Returns the key of a secret. The error does not repeat the secret. */
  private static byte[] key(String secret) {
    final int shortest = 24, longest = 64; // bytes
    byte[] key =
        secret != null && secret.startsWith(PREFIX)
            ? decoded(secret.substring(PREFIX.length()))
            : new byte[0];
    if (key.length < shortest || key.length > longest)
      throw new IllegalArgumentException("a secret must be whsec_ and 24 to 64 bytes in base64");
    return key;
  }

  private static byte[] decoded(String base64) {
    try {
      return Base64.getDecoder().decode(base64);
    } catch (IllegalArgumentException e) {
      return new byte[0];
    }
  }

  /**
   * Returns the message id, or throws a {@link WebhookException} if the request is no webhook. The
   * function returns a header by its name, such as {@code request::getHeader} of a servlet; null:
   * there is none. The body must be the bytes as they came. The signature covers webhook-id,
   * webhook-timestamp and the body, not the other headers. A valid request may come again with the
   * same message id: handle each id once.
   */
  public String verify(UnaryOperator<String> header, byte[] body) throws WebhookException {
    return verify(header, body, Instant.now());
  }

  String verify(UnaryOperator<String> header, byte[] body, Instant now) throws WebhookException {
    String id = orEmpty(header.apply("webhook-id"));
    String timestamp = orEmpty(header.apply("webhook-timestamp"));
    String signatures = orEmpty(header.apply("webhook-signature"));
    // an id of more parts may be another id and its time, of which the rest is in the body
    boolean isId = !id.isEmpty() && id.split("\\.", -1).length <= 3;
    if (!isId || signatures.isEmpty() || !timestamp.matches("-?\\d{1,19}"))
      throw new WebhookException(WebhookException.Fault.HEADERS);
    double age = Math.abs(now.toEpochMilli() / 1000.0 - Double.parseDouble(timestamp));
    if (age > tolerance.toMillis() / 1000.0)
      throw new WebhookException(WebhookException.Fault.TIME);
    for (byte[] key : keys) {
      if (hasSignature(signatures, sign(key, id + "." + timestamp + ".", body))) return id;
    }
    throw new WebhookException(WebhookException.Fault.SIGNATURE);
  }

  private static String orEmpty(String value) {
    return value == null ? "" : value;
  }

  private static byte[] sign(byte[] key, String head, byte[] body) {
    try {
      var mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      mac.update(head.getBytes(StandardCharsets.UTF_8));
      return mac.doFinal(body);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e); // every Java has HmacSHA256
    }
  }

  /** Reports whether a signature of the kind v1 is in the list. Others may be of later kinds. */
  private static boolean hasSignature(String signatures, byte[] want) {
    for (String signature : signatures.split(" ")) {
      if (signature.startsWith("v1,")
          && MessageDigest.isEqual(decoded(signature.substring(3)), want)) return true;
    }
    return false;
  }
}
