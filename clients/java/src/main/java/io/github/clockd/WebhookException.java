package io.github.clockd;

/**
 * A request is no valid webhook. Respond with 401. The text does not tell the secret or the right
 * signature.
 */
public final class WebhookException extends Exception {
  private static final long serialVersionUID = 1;

  /** What is wrong with a request. */
  public enum Fault {
    /** It has not the headers of a webhook. */
    HEADERS(
        "the request has not the headers of a webhook: webhook-id, webhook-timestamp and"
            + " webhook-signature"),
    /** It is too old or too new. */
    TIME("the webhook is too old or too new"),
    /** No signature fits. */
    SIGNATURE("no signature of the webhook fits");

    private final String text;

    Fault(String text) {
      this.text = text;
    }
  }

  private final Fault fault;

  WebhookException(Fault fault) {
    super(fault.text);
    this.fault = fault;
  }

  /** Returns what is wrong. */
  public Fault fault() {
    return fault;
  }
}
