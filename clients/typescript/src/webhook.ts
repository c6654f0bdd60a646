import { createHmac, timingSafeEqual } from "node:crypto";
import { readBase64 } from "./alarm.js";

/** What is wrong with a request. */
export type WebhookFault = "headers" | "time" | "signature";

/** The headers of a request: of node:http, of fetch, or an object. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

/** How a {@link Verifier} judges. */
export interface VerifierOptions {
  /** Longest difference of a webhook's time from now, in milliseconds; default 5 minutes. */
  tolerance?: number;
}

const texts: Record<WebhookFault, string> = {
  headers: "the request has not the headers of a webhook: webhook-id, webhook-timestamp and webhook-signature",
  time: "the webhook is too old or too new",
  signature: "no signature of the webhook fits",
};

/** A request is no valid webhook. Respond with 401. The text does not tell the secret or the right signature. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
  readonly fault: WebhookFault;

  constructor(fault: WebhookFault) {
    super(texts[fault]);
    this.fault = fault;
  }
}

/**
 * Checks that requests are webhooks that were signed with any of the secrets, as Standard Webhooks says
 * (https://www.standardwebhooks.com). Give it the old and the new secret while a secret is changed.
 */
export class Verifier {
  readonly #keys: Uint8Array[];
  readonly #tolerance: number;

  /** Takes secrets as `clockd application` prints them. A wrong secret is a TypeError, which does not repeat it. */
  constructor(secrets: string | string[], options: VerifierOptions = {}) {
    this.#keys = [secrets].flat().map(keyOf);
    if (this.#keys.length === 0) throw new TypeError("a verifier needs at least one secret");
    this.#tolerance = options.tolerance ?? 5 * 60_000;
    if (!Number.isFinite(this.#tolerance) || this.#tolerance < 0)
      throw new TypeError("the tolerance must be milliseconds");
  }

  /**
   * Returns the message id, or throws a {@link WebhookError} if the request with these headers and body is no webhook.
   * `body` must be the bytes, or the text, as they came. The signature covers webhook-id, webhook-timestamp and the body,
   * not the other headers. A valid request may come again with the same message id: handle each id once.
   */
  verify(headers: WebhookHeaders, body: Uint8Array | string, now: Date = new Date()): string {
    const id = header(headers, "webhook-id");
    const timestamp = header(headers, "webhook-timestamp");
    const signatures = header(headers, "webhook-signature");
    // an id of more parts may be another id and its time, of which the rest is in the body
    const isId = id !== "" && id.split(".").length <= 3;
    if (!isId || signatures === "" || !/^-?\d{1,19}$/.test(timestamp)) throw new WebhookError("headers");
    if (!(Math.abs(now.getTime() - Number(timestamp) * 1000) <= this.#tolerance)) throw new WebhookError("time");
    for (const key of this.#keys) {
      const want = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
      if (hasSignature(signatures, want)) return id;
    }
    throw new WebhookError("signature");
  }
}

/** Returns the key of a secret. */
function keyOf(secret: string): Uint8Array {
  const shortest = 24,
    longest = 64; // bytes
  let key = new Uint8Array();
  try {
    if (secret.startsWith("whsec_")) key = readBase64(secret.slice("whsec_".length)) as typeof key;
  } catch {
    // the error below does not repeat the secret
  }
  if (key.length < shortest || key.length > longest) {
    throw new TypeError("a secret must be whsec_ and 24 to 64 bytes in base64");
  }
  return key;
}

/** Returns a header. One that occurs twice is none: the caller might read the other one. */
function header(headers: WebhookHeaders, name: string): string {
  if (headers instanceof Headers) return headers.get(name) ?? "";
  const values = Object.entries(headers)
    .filter(([given]) => given.toLowerCase() === name)
    .flatMap(([, value]) => value ?? []);
  return values.length === 1 ? values[0]! : "";
}

/** Reports whether a signature of the kind v1 is in the list. Others may be of later kinds. */
function hasSignature(signatures: string, want: Uint8Array): boolean {
  return signatures.split(" ").some((signature) => {
    if (!signature.startsWith("v1,")) return false;
    const got = Buffer.from(signature.slice("v1,".length), "base64");
    return got.length === want.length && timingSafeEqual(got, want);
  });
}
