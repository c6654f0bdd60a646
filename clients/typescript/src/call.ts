// What a call sends, when it is repeated, and what its response means.
import { type Alarm, list, mayHaveChanged, members, readAlarm, readResult, type Result, text } from "./alarm.js";
import { type Answer, answerBody } from "./answer.js";
import { ClockdError, invalid } from "./error.js";
import { type Change, isRepeatable, type OnlyIf, onlyIfHeaders, setBody, type SetFields, setHeaders } from "./set.js";
import { type Duration, type Instant, writeDuration, writeInstant } from "./values.js";

/** What a client was made with. All times are in milliseconds. */
export interface Options {
  /** URL of the service, without a slash at the end. */
  base: string;
  headers: Record<string, string>;
  name: string;
  tries: number;
  tryTimeout: number;
  timeout: number;
  fetch: typeof fetch;
}

/** One call, which may take several tries. */
export interface Request<T> {
  method: string;
  /** Escaped path and query. */
  path: string;
  headers?: Record<string, string>;
  body?: string;
  /** Whether a second effect of the request does no harm, or only after a try that certainly had no effect. */
  repeat: "always" | "unsent" | "never";
  /** Milliseconds that the service may wait before it responds; a try lasts that much longer. */
  wait?: number;
  /** Reads the JSON of the response. */
  read: (value: unknown) => T;
}

/** Size of the largest response that is read. A page of a list has about 4 MiB. */
export const responseBytes = 16 << 20;

/** Longest wait between two tries, if the service does not ask for more. */
export const longestWait = 5000;
const firstWait = 100;
const longestRetryAfter = 60_000;

/** Returns the time of a monotonic clock, in milliseconds. */
export function clock(): number {
  return performance.now();
}

/** The tries of one call. */
export class Tries {
  readonly #request: Request<unknown>;
  readonly #options: Options;
  readonly #ends: number;
  #count = 0;
  #unconfirmed = false;

  constructor(request: Request<unknown>, options: Options) {
    this.#request = request;
    this.#options = options;
    this.#ends = clock() + options.timeout + (request.wait ?? 0);
  }

  /** Returns the time for the next try. */
  limit(): number {
    return Math.max(1, Math.min(this.#options.tryTimeout + (this.#request.wait ?? 0), this.#ends - clock()));
  }

  /** Returns the wait after a failed try. It throws the failure if no other try may follow. */
  after(failed: ClockdError): number {
    this.#count++;
    this.#unconfirmed ||= failed.unconfirmed && this.#request.method !== "GET";
    failed.unconfirmed = this.#unconfirmed;
    const { repeat } = this.#request;
    const mayRepeat = failed.again && (repeat === "always" || (repeat === "unsent" && !failed.unconfirmed));
    const wait = backoff(this.#count, failed.retryAfter);
    if (this.#count >= this.#options.tries || !mayRepeat || wait === null || clock() + wait >= this.#ends) throw failed;
    return wait;
  }
}

/** Returns the headers of a try. They tell how long the client waits, if that is shorter than the service may take. */
export function headersOf(request: Request<unknown>, options: Options, limit: number): Record<string, string> {
  const serviceTime = 15_000,
    way = 500;
  const headers = { ...options.headers, ...request.headers };
  if (request.body !== undefined) headers["Content-Type"] = "application/json";
  if (limit - way < serviceTime) headers["Prefer"] = `wait=${Math.max(1, Math.floor((limit - way) / 1000))}`;
  return headers;
}

/**
 * Returns the wait after the nth try; null: it would be too long. A Retry-After is extended by up to a half, any other
 * wait is shortened by up to a half.
 */
export function backoff(n: number, retryAfter: number): number | null {
  if (retryAfter > longestRetryAfter) return null;
  if (retryAfter > 0) return retryAfter * (1 + Math.random() / 2);
  return Math.min(firstWait * 2 ** Math.min(n - 1, 10), longestWait) * (1 - Math.random() / 2);
}

/** Returns the wait before a stream is opened again. */
export function pauseOfStream(n: number, retryAfter: number): number {
  return backoff(n, Math.min(retryAfter, longestRetryAfter)) ?? longestWait;
}

// Codes of failures without a connection, so that the service cannot have received the request.
const unsentCodes = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"];

/** Returns the error for a try without a whole response. */
export function broken(error: unknown, server = "the service"): ClockdError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error; // fetch hides the cause
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  const message = cause instanceof Error ? cause.message : "";
  const unsent =
    unsentCodes.includes(code) || (cause instanceof Error && "syscall" in cause && cause.syscall === "connect");
  const detail = `no response from ${server}: ${message.trim() || code || String(error)}`;
  return new ClockdError(detail, { again: true, unconfirmed: !unsent, cause: error });
}

/** Returns the error for a try that took too long. */
export function tooSlow(limit: number): ClockdError {
  return new ClockdError(`the service did not respond within ${Math.round(limit) / 1000} s`, {
    again: true,
    unconfirmed: true,
  });
}

/** Returns the error for a response with an expected status that is not clockd's. */
export function unreadable(status: number, cause: unknown, unconfirmed = false): ClockdError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ClockdError(`the server's response cannot be read: ${why}`, { status, unconfirmed, cause });
}

/** Returns what a response holds. */
export function readResponse<T>(request: Request<T>, response: Response, body: string): T {
  if (response.status < 200 || response.status > 299) throw refusal(response, body);
  try {
    return request.read(JSON.parse(body));
  } catch (error) {
    throw unreadable(response.status, error, request.method !== "GET");
  }
}

/** Returns the error for a response that is not 2xx. A proxy may have sent it. */
export function refusal(response: Response, body: string): ClockdError {
  const { status } = response;
  const fields = {
    status,
    retryAfter: readRetryAfter(response.headers.get("Retry-After") ?? ""),
    again: [408, 429, 502, 503, 504].includes(status),
  };
  let code = "",
    field = "",
    detail = "";
  let alarm: Alarm | null = null;
  try {
    const problem = members(JSON.parse(body), "code");
    code = text(problem, "code");
    field = text(problem, "field");
    detail = text(problem, "detail");
    alarm = readAlarm(problem["alarm"]);
  } catch {
    // it is no problem of clockd, or has no alarm
  }
  return new ClockdError(detail, { ...fields, code, field, alarm, unconfirmed: mayHaveChanged(status, code) });
}

/** Reads a Retry-After header in either of its forms. It returns 0 for a value that it cannot read. */
export function readRetryAfter(value: string): number {
  if (/^\d+$/.test(value)) return Number(value) < 2 ** 31 ? Number(value) * 1000 : 0;
  if (!/^[A-Z][a-z]{2}, /.test(value)) return 0;
  return Math.max(0, Math.round((Date.parse(value) - Date.now()) / 1000) * 1000) || 0;
}

/**
 * Returns an id as one segment of a path. A URL has no segments . and .., in any form; they are no ids of clockd
 * either.
 */
export function segment(id: string): string {
  checkId(id);
  if (id === "." || id === "..") throw invalid("business_id", `an id must not be ${JSON.stringify(id)}`);
  try {
    return encodeURIComponent(id);
  } catch (error) {
    throw invalid("business_id", "an id must be Unicode", error);
  }
}

function checkId(id: unknown): void {
  if (typeof id !== "string" || id === "")
    throw invalid("business_id", `an id must be a text that is not empty, not ${String(id)}`);
}

/** Returns the path of an application. */
export function applicationPath(application: string): string {
  return `/v1/applications/${segment(application)}`;
}

function alarmPath(application: string, businessId: string): string {
  return `${applicationPath(application)}/alarms/${segment(businessId)}`;
}

/** Returns the request of a set. */
export function setRequest(application: string, businessId: string, fields: SetFields): Request<Alarm> {
  return {
    method: "PUT",
    path: alarmPath(application, businessId),
    headers: setHeaders(fields),
    body: encode(setBody(fields)),
    repeat: isRepeatable(fields) ? "always" : "never",
    read: readAlarm,
  };
}

/** Returns the request of a cancel. With a note it is the act of a person. */
export function cancelRequest(application: string, businessId: string, onlyIf?: number, note?: string): Request<Alarm> {
  const path = alarmPath(application, businessId);
  if (typeof onlyIf === "string") throw invalid("only_if", "the condition of a cancel is a generation, a number");
  const common = { headers: onlyIfHeaders(onlyIf), repeat: "always", read: readAlarm } as const;
  if (!note) return { method: "DELETE", path, ...common };
  return { method: "POST", path: `${path}/cancel`, body: encode({ note }), ...common };
}

/** Returns the request of a get. */
export function getRequest(application: string, businessId: string): Request<Alarm> {
  return { method: "GET", path: alarmPath(application, businessId), repeat: "always", read: readAlarm };
}

/** Returns the request of a batch. */
export function batchRequest(application: string, changes: readonly Change[]): Request<Result[]> {
  const set: object[] = [],
    cancel: string[] = [];
  let repeat: "always" | "never" = "always";
  for (const change of changes) {
    if ("cancel" in change) {
      checkId(change.cancel);
      cancel.push(change.cancel);
      continue;
    }
    const { set: businessId, ...fields } = change;
    checkId(businessId);
    if (Object.keys(setHeaders(fields)).length > 0)
      throw invalid("only_if", "a generation and traceparent are for single calls only");
    try {
      set.push({ business_id: businessId, ...setBody(fields) });
    } catch (error) {
      throw error instanceof ClockdError ? invalid(error.field, `${businessId}: ${error.detail}`) : error;
    }
    if (!isRepeatable(fields)) repeat = "never";
  }
  return {
    method: "POST",
    path: `${applicationPath(application)}/alarms`,
    body: encode({ set, cancel }),
    repeat,
    read: (value) => list(members(value), "results").map(readResult),
  };
}

/** A page of a list. */
export interface Page {
  alarms: Alarm[];
  /** Cursor of the next page; empty: this is the last page. */
  cursor: string;
}

/** What a list selects. */
export interface Selection {
  states?: readonly string[];
  prefix?: string;
  dueAfter?: Instant;
  dueBefore?: Instant;
}

/** Returns the request of a page of a list. */
export function pageRequest(application: string, selected: Selection, limit: number, cursor: string): Request<Page> {
  const query = new URLSearchParams({ limit: String(limit) });
  if (selected.states?.length) query.set("state", selected.states.join(","));
  if (selected.prefix) query.set("prefix", selected.prefix);
  if (selected.dueAfter !== undefined) query.set("due_after", String(writeInstant("due_after", selected.dueAfter)));
  if (selected.dueBefore !== undefined) query.set("due_before", String(writeInstant("due_before", selected.dueBefore)));
  if (cursor) query.set("cursor", cursor);
  return {
    method: "GET",
    path: `${applicationPath(application)}/alarms?${query}`,
    repeat: "always",
    read: (value) => {
      const page = members(value);
      return { alarms: list(page, "alarms").map(readAlarm), cursor: text(page, "next_cursor") };
    },
  };
}

/** Returns the request of a reserve. A repeat of it would reserve further rings. */
export function reserveRequest<T>(
  application: string,
  count: number,
  wait: Duration,
  read: (ring: unknown) => T,
): Request<T[]> {
  const milliseconds = writeDuration("wait", wait);
  if (typeof milliseconds === "string") throw invalid("wait", "wait must be a number of milliseconds");
  return {
    method: "POST",
    path: `${applicationPath(application)}/rings/reserve`,
    body: encode({ count, wait: milliseconds }),
    repeat: "unsent",
    wait: milliseconds,
    read: (value) => list(members(value), "rings").map(read),
  };
}

/** Returns the request of an answer. */
export function answerRequest(application: string, messageId: string, answer: Answer, by: string): Request<Alarm> {
  if (answer.kind === "none") throw invalid("kind", "an answer is ack, release, bury or touch");
  return {
    method: "POST",
    path: `${applicationPath(application)}/rings/${segment(messageId)}/${answer.kind}`,
    body: encode(answerBody(answer, by)),
    repeat: "always",
    read: readAlarm,
  };
}

/** Returns the alarm if an earlier try of the answer was accepted, and its response was lost; else null. */
export function acceptedBefore(failed: unknown, messageId: string, answer: Answer, by: string): Alarm | null {
  if (!(failed instanceof ClockdError) || failed.code !== "stale_ring" || !failed.unconfirmed) return null;
  const { alarm } = failed;
  const name = answer.by || by;
  if (alarm === null || alarm.answer !== answer.kind || (name && name !== alarm.answeredBy)) return null;
  return messageId.endsWith(`.${alarm.generation}.${alarm.ringNo}`) ? alarm : null;
}

function encode(body: object): string {
  try {
    return JSON.stringify(body, (name, value: unknown) => {
      const isNumber = typeof value === "number";
      if (typeof value === "function" || typeof value === "symbol" || (isNumber && !Number.isFinite(value))) {
        throw new TypeError(`${name} is no value of JSON`);
      }
      return value;
    });
  } catch (error) {
    throw invalid("", `the input cannot be encoded: ${error instanceof Error ? error.message : String(error)}`, error);
  }
}

/** Returns the condition of a cancel, which is on a generation alone. */
export type OnlyIfGeneration = Extract<OnlyIf, number>;
