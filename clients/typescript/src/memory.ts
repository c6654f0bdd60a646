import type { Answer } from "./answer.js";

/**
 * Remembers the last rings by message id, each with the answer that the service has not accepted yet. Copies of a ring
 * come soon after it: after a lost connection, or a node's end.
 */
export class Memory {
  readonly #size: number;
  readonly #busy = new Set<string>();
  readonly #done = new Map<string, Answer | null>(); // the oldest first

  constructor(size: number) {
    this.#size = size;
  }

  /** Returns what is known of a ring. After "new", the ring is "busy" until `end`. */
  begin(messageId: string): { known: "new" | "busy" | "done"; unsent: Answer | null } {
    const unsent = this.#done.get(messageId);
    if (unsent !== undefined) return { known: "done", unsent };
    if (this.#busy.has(messageId)) return { known: "busy", unsent: null };
    this.#busy.add(messageId);
    return { known: "new", unsent: null };
  }

  /** Makes the ring "done". It may be called again, to replace the answer. */
  end(messageId: string, unsent: Answer | null): void {
    this.#busy.delete(messageId);
    this.#done.set(messageId, unsent);
    if (this.#done.size > this.#size) this.#done.delete(this.#done.keys().next().value!);
  }
}
