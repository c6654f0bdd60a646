import { ClockdError } from "./error.js";
import { readDuration, readInstant } from "./values.js";

/** Members of an object of JSON. */
export type Members = Record<string, unknown>;

export type State = "scheduled" | "ringing" | "rung" | "expired" | "dead" | "cancelled" | "paused";

export type PayloadKind = Payload["payloadKind"];

/** The payload of an alarm or a ring: a value of JSON, a text, bytes, or none. */
export type Payload =
  | { payloadKind: "json"; payload: unknown }
  | { payloadKind: "text"; payload: string }
  | { payloadKind: "bytes"; payload: Uint8Array }
  | { payloadKind: null; payload: null };

/** An occurrence of a repeating alarm. */
export interface Occurrence {
  /** 1 for the first occurrence of a generation; 0 for one of a backfill. */
  number: number;
  /** Its time, without jitter. */
  at: Date;
  /** Time of the occurrence before it, whether it rang or not. */
  previousAt: Date | null;
  /** Time of the occurrence after it. */
  nextAt: Date | null;
}

/** A try to ring that was not confirmed, or a ring that was released, buried or not answered. */
export interface Attempt {
  generation: number;
  ringNo: number;
  /** Transaction of the service that made the try. */
  claimId: string;
  time: Date | null;
  /** Such as returned, nacked, in_doubt, released, buried or unacknowledged. */
  outcome: string;
  error: string | null;
  /** Who released or buried the ring. */
  by: string | null;
}

/** A reason why due alarms do not ring now. */
export interface Blocker {
  /** The OpenAPI document of the service explains the codes. */
  code: string;
  target: string | null;
  detail: string;
}

/** An alarm. `raw` has further members, as the HTTP API names them. */
export type Alarm = Payload & {
  application: string;
  businessId: string;
  state: State;
  /** Version: 1 at creation, 1 more with each set that changes the alarm. */
  generation: number;
  /** Time to ring; of a repeating alarm, of its current occurrence. */
  ringAt: Date | null;
  /** Last time to ring; null: however late. */
  latestRingAt: Date | null;
  /** Time of the next ring or try; null: none. */
  nextTryTime: Date | null;
  contentType: string;
  /** Time for an answer to a ring, in milliseconds; null: rings need no answer. */
  ackTimeout: number | null;
  /** Failed tries. */
  retryTimes: number;
  /** Confirmed rings of this generation. */
  ringNo: number;
  /** Whether a ring was handed over, and its outcome is unknown. */
  inDoubt: boolean;
  lastError: string | null;
  rungAt: Date | null;
  /** Last accepted answer of this generation: ack, release or bury. */
  answer: string | null;
  answeredBy: string | null;
  /** Current occurrence; null without a rule. */
  occurrence: Occurrence | null;
  createdAt: Date | null;
  updatedAt: Date | null;
  finishedAt: Date | null;
  /** Failed tries and refused rings, newest first; only `get` returns them. */
  attempts: Attempt[];
  /** Reasons why the alarm does not ring although it is due; only reads return them. */
  blockers: Blocker[];
  /** The alarm as the service wrote it. */
  raw: Members;
};

/** One ring of an alarm. */
export type Ring = Payload & {
  /** The same for all copies of one ring; no other ring has it. */
  messageId: string;
  application: string;
  businessId: string;
  /** Version of the alarm. */
  generation: number;
  /** Number of the ring in its generation, from 1. */
  ringNo: number;
  /** Failed tries of the alarm. */
  retryTimes: number;
  ringAt: Date | null;
  /** When the service began this try. */
  rungAt: Date | null;
  claimId: string;
  /** Time for the answer, in milliseconds; null: the ring needs no answer. */
  ackTimeout: number | null;
  contentType: string;
  /** W3C trace context of the set, "" if it had none. */
  traceparent: string;
  /** Occurrence that rings; null: the alarm rings once, or a person triggered the ring. */
  occurrence: Occurrence | null;
  /** The ring as the service wrote it. */
  raw: Members;
};

/** The result of one change of a batch. */
export interface Result {
  businessId: string;
  /** Status that the single call would have had. */
  status: number;
  /** Generation of the alarm afterwards; 0 after a refusal without an alarm. */
  generation: number;
  /** State of the alarm afterwards. */
  state: State | null;
  /** The failure of the change. */
  error: ClockdError | null;
}

/** Reads an alarm of the service. It ignores members that it does not know. */
export function readAlarm(value: unknown): Alarm {
  const m = members(value, "business_id", "state");
  return {
    application: text(m, "application"),
    businessId: text(m, "business_id"),
    state: text(m, "state") as State,
    generation: number(m, "generation"),
    ringAt: readInstant(m["ring_at"]),
    latestRingAt: readInstant(m["latest_ring_at"]),
    nextTryTime: readInstant(m["next_try_time"]),
    ...readPayload(m),
    contentType: text(m, "content_type"),
    ackTimeout: readDuration(m["ack_timeout"]),
    retryTimes: number(m, "retry_times"),
    ringNo: number(m, "ring_no"),
    inDoubt: m["in_doubt"] === true,
    lastError: textOrNull(m, "last_error"),
    rungAt: readInstant(m["rung_at"]),
    answer: textOrNull(m, "answer"),
    answeredBy: textOrNull(m, "answered_by"),
    occurrence: readOccurrence(m["occurrence"]),
    createdAt: readInstant(m["created_at"]),
    updatedAt: readInstant(m["updated_at"]),
    finishedAt: readInstant(m["finished_at"]),
    attempts: ("attempts" in m ? list(m, "attempts") : []).map(readAttempt),
    blockers: ("blockers" in m ? list(m, "blockers") : []).map(readBlocker),
    raw: m,
  };
}

/** Reads a ring of the stream, or the parsed body of a webhook with `body=envelope`. */
export function readRing(value: unknown): Ring {
  const m = members(value, "message_id", "business_id");
  return {
    messageId: text(m, "message_id"),
    application: text(m, "application"),
    businessId: text(m, "business_id"),
    generation: number(m, "generation"),
    ringNo: number(m, "ring_no"),
    retryTimes: number(m, "retry_times"),
    ringAt: readInstant(m["ring_at"]),
    rungAt: readInstant(m["rung_at"]),
    claimId: text(m, "claim_id"),
    ackTimeout: readDuration(m["ack_timeout"]),
    contentType: text(m, "content_type"),
    traceparent: text(m, "traceparent"),
    ...readPayload(m),
    occurrence: readOccurrence(m["occurrence"]),
    raw: m,
  };
}

/** Reads the result of one change. */
export function readResult(value: unknown): Result {
  const m = members(value);
  const status = number(m, "status");
  const code = text(m, "code");
  const error =
    status < 300
      ? null
      : new ClockdError(text(m, "detail"), {
          status,
          code,
          field: text(m, "field"),
          unconfirmed: mayHaveChanged(status, code),
        });
  const state = textOrNull(m, "state") as State | null;
  return { businessId: text(m, "business_id"), status, generation: number(m, "generation"), state, error };
}

/** Reports whether the service may have made a change. A proxy sends 502 and 504 when it does not know. */
export function mayHaveChanged(status: number, code: string): boolean {
  return status >= 500 && !["unavailable", "overloaded", "key_overloaded"].includes(code);
}

/** Returns the members of an object that has texts of these names. */
export function members(value: unknown, ...texts: string[]): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new TypeError("it is no object");
  const m = value as Members;
  for (const name of texts) {
    if (typeof m[name] !== "string" || m[name] === "") throw new TypeError(`it has no ${name}`);
  }
  return m;
}

/** Returns a member that is an array. */
export function list(m: Members, name: string): unknown[] {
  const value = m[name];
  if (!Array.isArray(value)) throw new TypeError(`it has no ${name}`);
  return value;
}

/** Returns a member that is a text, or an empty text. */
export function text(m: Members, name: string): string {
  return textOrNull(m, name) ?? "";
}

function textOrNull(m: Members, name: string): string | null {
  const value = m[name];
  return typeof value === "string" ? value : null;
}

function number(m: Members, name: string): number {
  const value = m[name];
  return typeof value === "number" ? value : 0;
}

function readPayload(m: Members): Payload {
  if ("payload" in m) return { payloadKind: "json", payload: m["payload"] };
  if (typeof m["text"] === "string") return { payloadKind: "text", payload: m["text"] };
  if (!("base64" in m)) return { payloadKind: null, payload: null };
  return { payloadKind: "bytes", payload: readBase64(m["base64"]) };
}

/** Reads bytes in base64. Buffer.from alone would ignore what is no base64. */
export function readBase64(value: unknown): Uint8Array {
  if (typeof value !== "string" || value.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(value)) {
    throw new TypeError("it is no base64");
  }
  return new Uint8Array(Buffer.from(value, "base64"));
}

function readOccurrence(value: unknown): Occurrence | null {
  if (value === null || value === undefined) return null;
  const m = members(value, "at");
  return {
    number: number(m, "number"),
    at: readInstant(m["at"])!,
    previousAt: readInstant(m["previous_at"]),
    nextAt: readInstant(m["next_at"]),
  };
}

function readAttempt(value: unknown): Attempt {
  const m = members(value);
  return {
    generation: number(m, "generation"),
    ringNo: number(m, "ring_no"),
    claimId: text(m, "claim_id"),
    time: readInstant(m["time"]),
    outcome: text(m, "outcome"),
    error: textOrNull(m, "error"),
    by: textOrNull(m, "by"),
  };
}

function readBlocker(value: unknown): Blocker {
  const m = members(value);
  return { code: text(m, "code"), target: textOrNull(m, "target"), detail: text(m, "detail") };
}
