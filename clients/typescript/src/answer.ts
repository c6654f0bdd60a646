import { type Duration, writeDuration } from "./values.js";

/** An answer to a ring of an alarm with `ackTimeout`. Make it with ack, release, bury or touch. */
export interface Answer {
  readonly kind: "ack" | "release" | "bury" | "touch" | "none";
  readonly delay?: Duration;
  readonly reason?: string;
  readonly by?: string;
}

/** A handler that returns it does not answer: the alarm rings again after its `ackTimeout`. */
export const NO_ANSWER: Answer = { kind: "none" };

/** The work is done. `by` is the name of the answering program or person; default: the client's name. */
export function ack(options: { by?: string } = {}): Answer {
  return { kind: "ack", ...options };
}

/** Ring again after the delay; default: at once. The reason, up to 500 bytes, is for reports. */
export function release(options: { delay?: Duration; reason?: string; by?: string } = {}): Answer {
  return { kind: "release", ...options };
}

/** Give up: a person looks at the alarm. The reason, up to 500 bytes, is for reports. */
export function bury(options: { reason?: string; by?: string } = {}): Answer {
  return { kind: "bury", ...options };
}

/** Wait longer for the answer: the delay counts from now. Default: the alarm's `ackTimeout`. */
export function touch(options: { delay?: Duration; by?: string } = {}): Answer {
  return { kind: "touch", ...options };
}

/** Reports whether a handler has returned an answer. */
export function isAnswer(value: unknown): value is Answer {
  const kinds: unknown[] = ["ack", "release", "bury", "touch", "none"];
  return typeof value === "object" && value !== null && "kind" in value && kinds.includes(value.kind);
}

/** Returns an answer as JSON, by default of this program or person. */
export function answerBody(answer: Answer, by: string): object {
  return {
    delay: answer.delay === undefined ? undefined : writeDuration("delay", answer.delay),
    reason: answer.reason || undefined,
    by: answer.by || by || undefined,
  };
}
