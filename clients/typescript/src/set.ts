import { type Duration, type Instant, writeDuration, writeInstant } from "./values.js";
import { invalid } from "./error.js";

/**
 * absent: no alarm has this id. earlier, later: the new time is so, or no alarm is pending. A number: the alarm has
 * this generation.
 */
export type OnlyIf = "absent" | "earlier" | "later" | number;

/** The policy for rings that fail: the longest wait is initial * factor^(tries-1), at most cap. */
export interface Retry {
  /** Default 1 s. */
  initial?: Duration;
  /** Default 2. With 1 all waits are the same. */
  factor?: number;
  /** Default 30 s. */
  cap?: Duration;
  /** Retries until the alarm is dead; default: until `latestRingAt`. */
  limit?: number;
}

/** The rule of an alarm that rings again. It has `cron` or `every`. */
export interface Repeat {
  /** Five fields, six with the second first, or a short form such as @daily. */
  cron?: string;
  /** IANA name, for cron only; default UTC. */
  timeZone?: string;
  /** Period, from 1 s to 3660 days. */
  every?: Duration;
  /** An occurrence, for every only; no occurrence is before it. Default: one period after the first set. */
  anchor?: Instant;
  /** Earliest possible occurrence; default: no begin. */
  from?: Instant;
  /** Latest possible occurrence; default: no end. */
  until?: Instant;
  /** Local dates without an occurrence, such as 2026-12-25, for cron only; at most 100. */
  skipDates?: string[];
  /** Number of occurrences; default: no limit. */
  times?: number;
  /** Longest random delay of a ring, at most 24 h; default: none. */
  jitter?: Duration;
  /** Time after an occurrence until which it may ring; default: however late. */
  latestAfter?: Duration;
  /** Effect of missed occurrences; default once: the latest one rings, however late. */
  missed?: "once" | "skip" | "all";
  /** Most late rings with `missed: "all"`, up to 1000; default 100. */
  missedLimit?: number;
  /** Longest lateness of a missed occurrence that still rings; default: however late. */
  missedWindow?: Duration;
  /** Effect of an occurrence while an earlier ring is not over; default skip. */
  overlap?: "skip" | "queue_one";
  /** Number of failed occurrences in a row that pauses the alarm; default: none does. */
  pauseAfter?: number;
  /** Effect of daylight saving on fixed times, for cron only; default ring_once. */
  dst?: "ring_once";
}

/** The fields of a set. It needs `ringAt`, `delay` or `repeat`. */
export interface SetFields {
  /** Time to ring. A time in the past rings at once. A text without an offset is a local time of `timeZone`. */
  ringAt?: Instant;
  /** IANA name, with a local `ringAt` only. */
  timeZone?: string;
  /** Time from the arrival of the set at the service until the ring. */
  delay?: Duration;
  /** Rule of an alarm that rings again. */
  repeat?: Repeat;
  /** Last time to ring, after which the alarm expires; not with `repeat`. Default: however late. */
  latestRingAt?: Instant;
  /** A value of JSON for the ring; default: no payload. */
  payload?: unknown;
  /** A text for the ring, in place of `payload`. */
  text?: string;
  /** Bytes for the ring, in place of `payload`. */
  data?: Uint8Array;
  /** Default by the payload. */
  contentType?: string;
  /** Default: no condition. */
  onlyIf?: OnlyIf;
  /** Policy for rings that fail. */
  retry?: Retry;
  /** Time for an answer to a ring, 1 s to 24 h, or 0: none is needed. Default: as the application's settings say. */
  ackTimeout?: Duration;
  /** Rings without an answer until the alarm is dead; default 10. */
  maxRings?: number;
  /** 0 to 9; among alarms due at the same instant the higher rings first. */
  priority?: number;
  /** Default at_least_once. */
  delivery?: "at_least_once" | "at_most_once";
  /** Target or destination, such as webhook/refunds, if the settings allow it; default: the application's. */
  target?: string;
  /** Fields of the receiver, where the settings allow them; needs `target`. */
  receiver?: Record<string, unknown>;
  /** W3C trace context, which the rings carry; not in a batch. */
  traceparent?: string;
}

/** One change of a batch: a set, or a cancel. */
export type Change = ({ set: string } & SetFields) | { cancel: string };

/** Reports whether a second effect of a set does no harm. Another delay would move the alarm. */
export function isRepeatable(fields: SetFields): boolean {
  return fields.delay === undefined || fields.onlyIf === "absent";
}

/** Returns the headers of a single set. */
export function setHeaders(fields: SetFields): Record<string, string> {
  refuseUnknown(fields, setMembers);
  const headers = onlyIfHeaders(fields.onlyIf);
  if (fields.traceparent) {
    if (!/^[ -~]*$/.test(fields.traceparent))
      throw invalid("traceparent", "traceparent has a character that no header has");
    headers["Traceparent"] = fields.traceparent;
  }
  return headers;
}

/** Returns the header of a condition on a generation. */
export function onlyIfHeaders(onlyIf: OnlyIf | undefined): Record<string, string> {
  if (onlyIf === undefined || ["absent", "earlier", "later"].includes(onlyIf as string)) return {};
  if (!Number.isSafeInteger(onlyIf))
    throw invalid("only_if", "onlyIf must be absent, earlier, later or a generation, a number");
  return { "If-Match": `"${onlyIf}"` };
}

/** Throws an error if an object has other members. The types do not refuse those of a variable. */
export function refuseUnknown(given: object, known: readonly string[]): void {
  if (typeof given !== "object" || given === null) throw invalid("", `${String(given)} is no object`);
  for (const name of Object.keys(given)) {
    if (!known.includes(name)) throw invalid(name, `there is no ${name}; known are ${known.join(", ")}`);
  }
}

const setMembers = [
  "ringAt",
  "timeZone",
  "delay",
  "repeat",
  "latestRingAt",
  "payload",
  "text",
  "data",
  "contentType",
  "onlyIf",
  "retry",
  "ackTimeout",
  "maxRings",
  "priority",
  "delivery",
  "target",
  "receiver",
  "traceparent",
] as const satisfies (keyof SetFields)[];
const retryMembers = ["initial", "factor", "cap", "limit"] as const satisfies (keyof Retry)[];
const repeatMembers = [
  "cron",
  "timeZone",
  "every",
  "anchor",
  "from",
  "until",
  "skipDates",
  "times",
  "jitter",
  "latestAfter",
  "missed",
  "missedLimit",
  "missedWindow",
  "overlap",
  "pauseAfter",
  "dst",
] as const satisfies (keyof Repeat)[];

/** Returns a set as JSON, without its business id. */
export function setBody(f: SetFields): Record<string, unknown> {
  if (f.data !== undefined && !(f.data instanceof Uint8Array)) throw invalid("data", "data must be a Uint8Array");
  if (f.payload instanceof Uint8Array) throw invalid("payload", "bytes are no JSON: give them as data");
  if ([f.payload, f.text, f.data].filter((p) => p !== undefined).length > 1) {
    throw invalid("payload", "a set has one of payload, text and data");
  }
  return {
    ring_at: instant("ring_at", f.ringAt),
    time_zone: f.timeZone,
    delay: duration("delay", f.delay),
    repeat: f.repeat && repeatBody(f.repeat),
    latest_ring_at: instant("latest_ring_at", f.latestRingAt),
    payload: f.payload,
    text: f.text,
    base64: f.data && Buffer.from(f.data).toString("base64"),
    content_type: f.contentType,
    if: typeof f.onlyIf === "string" ? f.onlyIf : undefined,
    retry: f.retry && retryBody(f.retry),
    ack_timeout: duration("ack_timeout", f.ackTimeout),
    max_rings: f.maxRings,
    priority: f.priority,
    delivery: f.delivery,
    target: f.target,
    receiver: f.receiver,
  };
}

function retryBody(r: Retry): object {
  refuseUnknown(r, retryMembers);
  return {
    initial: duration("retry.initial", r.initial),
    factor: r.factor,
    cap: duration("retry.cap", r.cap),
    limit: r.limit,
  };
}

function repeatBody(r: Repeat): object {
  refuseUnknown(r, repeatMembers);
  return {
    cron: r.cron,
    time_zone: r.timeZone,
    every: duration("repeat.every", r.every),
    anchor: instant("repeat.anchor", r.anchor),
    from: instant("repeat.from", r.from),
    until: instant("repeat.until", r.until),
    skip_dates: r.skipDates,
    times: r.times,
    jitter: duration("repeat.jitter", r.jitter),
    latest_after: duration("repeat.latest_after", r.latestAfter),
    missed: r.missed,
    missed_limit: r.missedLimit,
    missed_window: duration("repeat.missed_window", r.missedWindow),
    overlap: r.overlap,
    pause_after: r.pauseAfter,
    dst: r.dst,
  };
}

function duration(field: string, value: Duration | undefined): number | string | undefined {
  return value === undefined ? undefined : writeDuration(field, value);
}

function instant(field: string, value: Instant | undefined): number | string | undefined {
  return value === undefined ? undefined : writeInstant(field, value);
}
