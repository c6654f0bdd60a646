import { type Alarm, readRing, type Result, type Ring } from "./alarm.js";
import { ack, type Answer } from "./answer.js";
import * as call from "./call.js";
import { type ConsumeOptions, Consumer, type Handler } from "./consumer.js";
import { ClockdError, invalid } from "./error.js";
import { type Change, refuseUnknown, type SetFields } from "./set.js";
import { aborted, pause, readBody } from "./transport.js";
import type { Duration } from "./values.js";

const version = "0.1.0";
const longestTimeout = 24 * 3600_000;

/** How a {@link Client} calls the service. */
export interface ClientOptions {
  /** Access token, if the service demands one. Use it over TLS, or inside a trusted network. Default: CLOCKD_TOKEN. */
  token?: string;
  /** Name of this program in answers to rings, for reports. */
  name?: string;
  /** Most tries of a call; default 5, 1: no call is repeated. */
  tries?: number;
  /** Time for one try, in milliseconds; default 20 s. The service takes up to 15 s. */
  tryTimeout?: number;
  /** Time for a call with its repeats, in milliseconds; default 60 s. */
  timeout?: number;
  /** The function that sends requests, for a proxy or certificates; default: the global fetch. */
  fetch?: typeof fetch;
}

/** Options of each call. */
export interface CallOptions {
  /** Ends the call. */
  signal?: AbortSignal;
}

/** Selects alarms of an application. */
export interface Filter extends call.Selection, CallOptions {
  /** Most alarms; default: no limit. */
  limit?: number;
}

/** Calls one clockd service. */
export class Client {
  readonly #options: call.Options;

  /** Takes the URL of a service, which may have a path. Default: CLOCKD_SERVER, else http://127.0.0.1:8080. */
  constructor(server = process.env["CLOCKD_SERVER"] || "http://127.0.0.1:8080", options: ClientOptions = {}) {
    const token = options.token ?? process.env["CLOCKD_TOKEN"] ?? "";
    if (!/^[!-~]*$/.test(token)) throw invalid("token", "the access token has a character that no token has");
    const headers: Record<string, string> = { "User-Agent": `clockd-node/${version}`, "Accept-Encoding": "identity" };
    if (token) headers["Authorization"] = `Bearer ${token}`;
    refuseUnknown(options, ["token", "name", "tries", "tryTimeout", "timeout", "fetch"]);
    this.#options = {
      base: baseOf(server),
      headers,
      name: options.name ?? "",
      tries: options.tries ?? 5,
      tryTimeout: options.tryTimeout ?? 20_000,
      timeout: options.timeout ?? 60_000,
      fetch: options.fetch ?? fetch,
    };
    if (!(this.#options.tries >= 1)) throw invalid("tries", "a call needs at least 1 try");
    for (const time of [this.#options.timeout, this.#options.tryTimeout]) {
      if (!(time > 0 && time <= longestTimeout)) {
        throw invalid("timeout", "the time for a call and for a try must be positive milliseconds, at most a day");
      }
    }
  }

  /**
   * Creates the alarm, keeps it if it is the same already, or changes it. Returns the alarm as it is now. A set with
   * `ringAt` or `repeat` may be repeated at any time. A set with `delay` is repeated only with `onlyIf: "absent"`: each
   * repeat would move the alarm.
   */
  set(application: string, businessId: string, fields: SetFields, options: CallOptions = {}): Promise<Alarm> {
    return this.#send(() => call.setRequest(application, businessId, fields), options.signal);
  }

  /**
   * Cancels an alarm. An alarm that was cancelled before is no error. If it is too late, the code of the error is
   * already_rung, already_expired, already_dead or ring_in_doubt, and the error has the alarm. With a note it is the act
   * of a person. `onlyIf` is the generation that the alarm must have.
   */
  cancel(
    application: string,
    businessId: string,
    options: CallOptions & { onlyIf?: number; note?: string } = {},
  ): Promise<Alarm> {
    return this.#send(() => {
      refuseUnknown(options, ["onlyIf", "note", "signal"]);
      return call.cancelRequest(application, businessId, options.onlyIf, options.note);
    }, options.signal);
  }

  /** Reads an alarm with its failed attempts. */
  get(application: string, businessId: string, options: CallOptions = {}): Promise<Alarm> {
    return this.#send(() => call.getRequest(application, businessId), options.signal);
  }

  /** Reads alarms page by page, in the order of their business ids, or with a due range of their due times. */
  async *alarms(application: string, filter: Filter = {}): AsyncGenerator<Alarm, void, undefined> {
    refuseUnknown(filter, ["states", "prefix", "dueAfter", "dueBefore", "limit", "signal"]);
    let left = filter.limit ?? Infinity;
    if (Number.isNaN(left)) throw invalid("limit", "limit is no number");
    let cursor = "";
    while (left > 0) {
      const limit = Math.min(left, 1000);
      const page = await this.#send(() => call.pageRequest(application, filter, limit, cursor), filter.signal);
      yield* page.alarms;
      left -= page.alarms.length;
      cursor = page.cursor;
      if (!cursor) return;
    }
  }

  /**
   * Makes up to 1000 changes with one request: first the sets, then the cancels. It is not atomic. It returns one result
   * for each set and then for each cancel. If any change fails for the service's reasons, the whole call fails, and may
   * be repeated.
   */
  batch(application: string, changes: readonly Change[], options: CallOptions = {}): Promise<Result[]> {
    return this.#send(() => call.batchRequest(application, changes), options.signal);
  }

  /**
   * Waits for rings of an application whose target is pull, and returns up to `count` of them (1 to 64; default 1). It
   * returns none if no alarm was due within `wait` (100 ms to 1 min; default 20 s). Answer each ring before its
   * `ackTimeout` has passed. Rings of a lost response ring again after it.
   */
  reserve(application: string, options: CallOptions & { count?: number; wait?: Duration } = {}): Promise<Ring[]> {
    const { count = 1, wait = 20_000, signal } = options;
    return this.#send(() => call.reserveRequest(application, count, wait, readRing), signal);
  }

  /** Tells that the work of a ring is done. */
  ack(application: string, messageId: string, options: CallOptions = {}): Promise<Alarm> {
    return this.answer(application, messageId, ack(), options);
  }

  /**
   * Answers the ring with this message id, and returns the alarm. If it is too late, the code of the error is
   * stale_ring, and the error has the alarm.
   */
  async answer(application: string, messageId: string, answer: Answer, options: CallOptions = {}): Promise<Alarm> {
    const by = this.#options.name;
    try {
      return await this.#send(() => call.answerRequest(application, messageId, answer, by), options.signal);
    } catch (failed) {
      const accepted = call.acceptedBefore(failed, messageId, answer, by);
      if (accepted === null) throw failed;
      return accepted;
    }
  }

  /**
   * Receives the rings of an application, and calls the handler once for each message id. It goes on after each end of a
   * connection. When `signal` aborts, it handles the rings that were read, and returns. It throws a {@link ClockdError}
   * if the service refuses the application, if the URL leads to another program, or if rings are left after `drain`.
   *
   * The handler returns the answer to a ring: nothing or ack() for work that is done, release(), bury(), or NO_ANSWER.
   * If it throws, there is no answer: the alarm rings again after its `ackTimeout`. A ring without `ackTimeout` needs no
   * answer, and is lost if the work fails.
   */
  async consume(application: string, handle: Handler, options: ConsumeOptions = {}): Promise<void> {
    const source = {
      open: (lastId: string, signal: AbortSignal) => this.#openStream(application, lastId, signal),
      reserve: (count: number, signal: AbortSignal) =>
        this.#send(() => call.reserveRequest(application, count, 20_000, (ring) => ring), signal),
    };
    return new Consumer(this, source, application, handle, options).run();
  }

  /** Opens the stream of an application's rings, and resumes it after an event. */
  async #openStream(application: string, lastId: string, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { ...this.#options.headers, Accept: "text/event-stream" };
    if (lastId) headers["Last-Event-ID"] = Buffer.from(lastId).toString("latin1"); // fetch writes the bytes of UTF-8
    const opening = new AbortController();
    const limit = this.#options.tryTimeout;
    const timer = setTimeout(() => opening.abort(call.tooSlow(limit)), limit);
    const abort = () => opening.abort(signal.reason);
    signal.addEventListener("abort", abort, { once: true }); // the signal is the stream's alone
    try {
      const url = `${this.#options.base}${call.applicationPath(application)}/rings`;
      return await this.#options.fetch(url, { headers, redirect: "manual", signal: opening.signal });
    } catch (error) {
      throw error instanceof ClockdError ? error : call.broken(error, this.#options.base);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends a request until a try succeeds, or until no further try is allowed. */
  async #send<T>(make: () => call.Request<T>, signal: AbortSignal | undefined): Promise<T> {
    const request = make();
    const tries = new call.Tries(request, this.#options);
    for (;;) {
      try {
        return await this.#try(request, tries, signal);
      } catch (failed) {
        if (!(failed instanceof ClockdError)) throw failed;
        const wait = tries.after(failed);
        await pause(wait, signal).catch(() => {
          throw aborted(signal, failed.unconfirmed);
        });
      }
    }
  }

  async #try<T>(request: call.Request<T>, tries: call.Tries, signal: AbortSignal | undefined): Promise<T> {
    const limit = tries.limit();
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(call.tooSlow(limit)), limit);
    const abort = () => controller.abort(aborted(signal, true));
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort();
    try {
      const response = await this.#options.fetch(this.#options.base + request.path, {
        method: request.method,
        headers: call.headersOf(request, this.#options, limit),
        body: request.body ?? null,
        redirect: "manual",
        signal: controller.signal,
      });
      return call.readResponse(request, response, await readBody(response));
    } catch (error) {
      throw error instanceof ClockdError ? error : call.broken(error, this.#options.base);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
}

function baseOf(server: string): string {
  let url: URL | undefined;
  try {
    url = new URL(server);
  } catch {
    // the error below does not repeat the URL, which may have a password
  }
  if (!url || !["http:", "https:"].includes(url.protocol) || /[?#]/.test(server)) {
    throw invalid("server", "the server's URL must be like http://127.0.0.1:8080");
  }
  if (url.username || url.password) throw invalid("server", "the server's URL must not have a password: use token");
  return url.href.replace(/\/+$/, "");
}
