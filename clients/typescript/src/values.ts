import { invalid } from "./error.js";

/** Milliseconds, rounded up, or a text like "1h30m" or "7d". */
export type Duration = number | string;

/** A Date, milliseconds since 1970, rounded up, or a text as of RFC 3339. */
export type Instant = Date | number | string;

/** Returns a duration in the service's JSON. It is rounded up so that no alarm rings early. */
export function writeDuration(field: string, value: Duration): number | string {
  if (typeof value === "string") return value;
  return writeMilliseconds(field, value);
}

/** Returns an instant in the service's JSON. It is rounded up so that no alarm rings early. */
export function writeInstant(field: string, value: Instant): number | string {
  if (typeof value === "string") return value;
  return writeMilliseconds(field, value instanceof Date ? value.getTime() : value);
}

function writeMilliseconds(field: string, value: number): number {
  if (typeof value !== "number" || !Number.isFinite(value))
    throw invalid(field, `${field} is neither a valid time nor a number of milliseconds`);
  return Math.ceil(value) + 0; // no negative zero
}

const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, us: 0.001, µs: 0.001 };

/** Reads a text like "1h30m" or null, and returns milliseconds. Other values are an error. */
export function readDuration(value: unknown): number | null {
  if (value === null || value === undefined) return null;
  if (typeof value !== "string" || !/^(\d+(\.\d+)?(h|ms|m|s|us|µs))+$/.test(value)) {
    throw new TypeError(`${JSON.stringify(value)} is no duration`);
  }
  let total = 0;
  for (const [, count, unit] of value.matchAll(/([\d.]+)([hmsuµ]+)/g)) total += Number(count) * units[unit!]!;
  return total;
}

/** Reads a text of RFC 3339 or null. Other values are an error. */
export function readInstant(value: unknown): Date | null {
  if (value === null || value === undefined) return null;
  const at = typeof value === "string" ? new Date(value) : new Date(NaN);
  if (Number.isNaN(at.getTime())) throw new TypeError(`${JSON.stringify(value)} is no time`);
  return at;
}
