import type { Alarm } from "./alarm.js";

/** What a {@link ClockdError} has besides its detail. */
export interface ErrorFields {
  status?: number;
  code?: string;
  field?: string;
  retryAfter?: number;
  alarm?: Alarm | null;
  unconfirmed?: boolean;
  again?: boolean;
  cause?: unknown;
}

/** The failure of a call. A failure without a response has its `cause`. */
export class ClockdError extends Error {
  override readonly name = "ClockdError";
  /** Status of the response; 0 if there was none. */
  readonly status: number;
  /** Stable name of the failure, such as `already_rung`; empty if the response has none. */
  readonly code: string;
  /** Wrong part of the input; empty if no part is wrong. */
  readonly field: string;
  /** Text for people. */
  readonly detail: string;
  /** Wait that the service asks for before a repeat, in milliseconds; 0: none. */
  readonly retryAfter: number;
  /** Alarm that caused the refusal; null if there is none. */
  readonly alarm: Alarm | null;
  /** Whether this try or an earlier try of the call may have changed something. */
  unconfirmed: boolean;
  /** Whether the same call may succeed later. */
  readonly again: boolean;

  constructor(detail: string, fields: ErrorFields = {}) {
    super(textOf(detail, fields), "cause" in fields ? { cause: fields.cause } : undefined);
    this.detail = detail;
    this.status = fields.status ?? 0;
    this.code = fields.code ?? "";
    this.field = fields.field ?? "";
    this.retryAfter = fields.retryAfter ?? 0;
    this.alarm = fields.alarm ?? null;
    this.unconfirmed = fields.unconfirmed ?? false;
    this.again = fields.again ?? false;
  }
}

/** Returns the detail, and the code with the field. */
function textOf(detail: string, fields: ErrorFields): string {
  const more: string[] = [];
  if (fields.code) more.push(fields.code);
  if (fields.field) more.push(`field ${fields.field}`);
  if (fields.retryAfter) more.push(`repeat after ${fields.retryAfter / 1000} s`);
  const text = detail || `the server returned status ${fields.status}`;
  return more.length > 0 ? `${text} (${more.join(", ")})` : text;
}

/** Returns the error for input that the client itself refuses. */
export function invalid(field: string, detail: string, cause?: unknown): ClockdError {
  return new ClockdError(detail, { code: "invalid_value", field, ...(cause === undefined ? {} : { cause }) });
}
