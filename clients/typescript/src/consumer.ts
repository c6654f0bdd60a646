//   connect ──▶ read ──▶ ring ──▶ wait for a handler ──▶ handle ──▶ answer
//      ▲         │ end, error, 50 s of silence            (only if the ring needs one)
//      └─ pause ◀┘
import { readRing, type Ring } from "./alarm.js";
import { ack, type Answer, isAnswer } from "./answer.js";
import * as call from "./call.js";
import type { Client } from "./client.js";
import { ClockdError, invalid } from "./error.js";
import { EventReader } from "./events.js";
import { Memory } from "./memory.js";
import { refuseUnknown } from "./set.js";
import { pause, readBody } from "./transport.js";

/** Does the work of a ring, and returns the answer to it. The signal ends when the consumer waits no longer. */
export type Handler = (ring: Ring, signal: AbortSignal) => Promise<Answer | void> | Answer | void;

/** How `consume` handles rings. */
export interface ConsumeOptions {
  /** Ends the consumer. */
  signal?: AbortSignal;
  /** Calls of the handler at once; default 1: rings are handled in the order of their arrival. */
  concurrency?: number;
  /** Reserve rings, for an application whose target is pull; default: read them from the service's stream. */
  pull?: boolean;
  /** Most rings of a stream that were read and wait for the handler; default 100. */
  readAhead?: number;
  /** Message ids that are remembered, to recognize copies; default 100,000. */
  memory?: number;
  /** Time for the rings that were read, after the end of the signal, in milliseconds; default 10 s. */
  drain?: number;
  /** Is told each fault after which the consumer goes on; default: console.warn. */
  onFault?: (fault: Fault) => void | Promise<void>;
}

/** A fault after which a consumer goes on. `cause` is the {@link ClockdError}, or what the handler has thrown. */
export class Fault extends Error {
  override readonly name = "Fault";
  /** The ring that was not handled, or whose answer was not accepted; null: the fault is none of a ring. */
  readonly ring: Ring | null;

  constructor(text: string, cause: unknown, ring: Ring | null) {
    super(text, { cause });
    this.ring = ring;
  }
}

/** Longest silence of a stream, in milliseconds. The service sends a comment every 15 s. */
const silence = 50_000;
/** Longest reserve without a ring that is followed by a pause, in milliseconds: the service waits for a ring. */
const shortReserve = 1000;
/** Most rings of one reserve. */
const mostReserved = 64;

/** The requests for rings. */
export interface Source {
  open: (lastId: string, signal: AbortSignal) => Promise<Response>;
  /** Returns rings in JSON. */
  reserve: (count: number, signal: AbortSignal) => Promise<unknown[]>;
}

/** Receives the rings of an application. */
export class Consumer {
  readonly #client: Client;
  readonly #reserveRaw: (count: number, signal: AbortSignal) => Promise<unknown[]>;
  readonly #open: (lastId: string, signal: AbortSignal) => Promise<Response>;
  readonly #application: string;
  readonly #handle: Handler;
  readonly #options: Required<Omit<ConsumeOptions, "signal">>;
  readonly #source = new AbortController(); // ends the stream, or the reserve
  readonly #work = new AbortController(); // ends the handlers
  readonly #memory: Memory;
  readonly #waiting: Ring[] = []; // rings that were read and wait for a handler
  #handling = 0; // calls of the handler
  #lastId = ""; // of the last event whose ring was handed over, from which the next stream resumes
  #arrived = false; // whether a ring has come since the last pause
  #wake: (() => void)[] = []; // wakes what waits for a change of the numbers of rings

  constructor(client: Client, source: Source, application: string, handle: Handler, options: ConsumeOptions) {
    this.#client = client;
    this.#open = source.open;
    this.#reserveRaw = source.reserve;
    this.#application = application;
    this.#handle = handle;
    this.#options = {
      concurrency: options.concurrency ?? 1,
      pull: options.pull ?? false,
      readAhead: options.readAhead ?? 100,
      memory: options.memory ?? 100_000,
      drain: options.drain ?? 10_000,
      onFault:
        options.onFault ??
        ((fault) => console.warn(fault.message, fault.cause instanceof ClockdError ? "" : fault.cause)),
    };
    refuseUnknown(options, ["signal", ...Object.keys(this.#options)]);
    if (typeof handle !== "function") throw invalid("handle", "a consumer needs a handler");
    for (const name of ["concurrency", "readAhead", "memory"] as const) {
      if (!(Number.isSafeInteger(this.#options[name]) && this.#options[name] >= 1))
        throw invalid(name, `${name} must be a whole number from 1`);
    }
    if (!Number.isFinite(this.#options.drain)) throw invalid("drain", "drain must be milliseconds");
    this.#memory = new Memory(this.#options.memory);
    this.#source.signal.addEventListener("abort", () => this.#changed(), { once: true });
    const stop = () => this.#source.abort(options.signal?.reason);
    options.signal?.addEventListener("abort", stop, { once: true, signal: this.#work.signal });
    if (options.signal?.aborted) stop();
  }

  /** Handles rings until the signal ends, or the service refuses the application. */
  async run(): Promise<void> {
    let refused: unknown;
    try {
      await this.#repeatedly();
    } catch (error) {
      if (!this.#source.signal.aborted) refused = error;
    }
    this.#source.abort();
    const left = await this.#drain();
    this.#work.abort();
    if (refused !== undefined) throw refused;
    if (left > 0) {
      const { drain } = this.#options;
      throw new ClockdError(
        `rings of ${this.#application} that were read and not handled within ${drain / 1000} s: ${left}`,
      );
    }
  }

  /** Waits for the rings that were read, and returns the number of rings that are not handled. */
  async #drain(): Promise<number> {
    let over = false; // a timer may end before its time, by another clock
    const timer = setTimeout(() => {
      over = true;
      this.#changed();
    }, this.#options.drain);
    while (this.#rings() > 0 && !over) await this.#change();
    clearTimeout(timer);
    return this.#rings();
  }

  #rings(): number {
    return this.#waiting.length + this.#handling;
  }

  /** Returns after the next change of the numbers of rings. */
  #change(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  #changed(): void {
    const wake = this.#wake;
    this.#wake = [];
    for (const resolve of wake) resolve();
  }

  /** Reads streams, or reserves rings, until the service refuses that for good. */
  async #repeatedly(): Promise<void> {
    const { signal } = this.#source;
    let n = 0;
    while (!signal.aborted) {
      const began = call.clock();
      this.#arrived = false;
      try {
        await (this.#options.pull ? this.#reserve() : this.#stream());
        n = 0;
      } catch (error) {
        if (signal.aborted || !(error instanceof ClockdError)) throw error;
        if (!error.again && error.status < 500 && error.code !== "rings_go_elsewhere") throw error;
        this.#tell(`${this.#options.pull ? "reserve" : "stream"} of ${this.#application}: ${error.message}`, error);
        n = this.#arrived || call.clock() - began > call.longestWait ? 1 : n + 1;
        await pause(call.pauseOfStream(n, error.retryAfter), signal);
      }
    }
  }

  /** Hands over the rings of one stream. It ends with an error. */
  async #stream(): Promise<void> {
    const stream = new AbortController();
    const silent = () =>
      stream.abort(new ClockdError(`the service was silent for ${silence / 1000} s`, { again: true }));
    const end = () => stream.abort(this.#source.signal.reason);
    this.#source.signal.addEventListener("abort", end, { once: true });
    let timer: NodeJS.Timeout | undefined;
    try {
      const response = await this.#open(this.#lastId, stream.signal);
      timer = setTimeout(silent, silence);
      await this.#check(response);
      const events = new EventReader(),
        decoder = new TextDecoder();
      for await (const part of response.body ?? []) {
        clearTimeout(timer); // the timer stands still while the handlers are slow
        for (const event of feed(events, decoder.decode(part, { stream: true }), response.status)) {
          // others are of a later version of the service
          if (event.type === "ring" && event.data) await this.#read(() => JSON.parse(event.data!));
          this.#lastId = event.id;
        }
        timer = setTimeout(silent, silence);
      }
      throw new ClockdError("the service ended the stream", { again: true });
    } catch (error) {
      throw error instanceof ClockdError ? error : call.broken(error);
    } finally {
      clearTimeout(timer);
      this.#source.signal.removeEventListener("abort", end);
      stream.abort();
    }
  }

  /** Throws the refusal of a stream. */
  async #check(response: Response): Promise<void> {
    if (response.status !== 200) throw call.refusal(response, await readBody(response));
    const kind = (response.headers.get("Content-Type") ?? "").split(";")[0]!.trim();
    if (kind !== "text/event-stream")
      throw call.unreadable(200, `it is ${JSON.stringify(kind)}, not a stream of events`);
    if (response.headers.get("X-Clockd-Resumed") === "false") {
      this.#tell(
        `stream of ${this.#application}: this node of the service cannot resume the stream: ` +
          "rings without ackTimeout that were on their way may be lost",
      );
    }
  }

  /** Reserves rings for the handlers that have none. */
  async #reserve(): Promise<void> {
    while (this.#rings() >= this.#options.concurrency) {
      await this.#change();
      this.#source.signal.throwIfAborted();
    }
    const count = Math.min(mostReserved, this.#options.concurrency - this.#rings());
    const began = call.clock();
    const rings = await this.#reserveRaw(count, this.#source.signal);
    for (const ring of rings) await this.#read(() => ring);
    if (rings.length === 0 && call.clock() - began < shortReserve) await pause(shortReserve, this.#source.signal);
  }

  /** Reads a ring, and hands it over. */
  async #read(value: () => unknown): Promise<void> {
    let ring: Ring;
    try {
      ring = readRing(value());
    } catch (error) {
      this.#tell(`a ring of ${this.#application} cannot be read: ${textOf(error)}`, error);
      return;
    }
    await this.#take(ring);
  }

  /** Hands over a ring. It waits while as many rings as may be read ahead wait for a handler, but not after a stop. */
  async #take(ring: Ring): Promise<void> {
    while (!this.#options.pull && this.#waiting.length >= this.#options.readAhead && !this.#source.signal.aborted) {
      await this.#change();
    }
    this.#arrived = true;
    this.#waiting.push(ring);
    if (this.#handling < this.#options.concurrency) void this.#handleWaiting();
  }

  /** Handles rings until none waits. */
  async #handleWaiting(): Promise<void> {
    this.#handling++;
    try {
      for (let ring = this.#waiting.shift(); ring && !this.#work.signal.aborted; ring = this.#waiting.shift()) {
        this.#changed();
        await this.#handleOnce(ring);
      }
    } finally {
      this.#handling--;
      this.#changed();
    }
  }

  /**
   * Calls the handler, unless the ring is a copy, and answers. A copy whose answer was not accepted repeats the answer.
   */
  async #handleOnce(ring: Ring): Promise<void> {
    let { known, unsent } = this.#memory.begin(ring.messageId);
    if (known === "new") {
      unsent = await this.#answerOf(ring);
      this.#memory.end(ring.messageId, unsent);
    }
    if (unsent === null) return;
    const name = `ring ${ring.messageId} of ${ring.application}/${ring.businessId}`;
    try {
      if (ring.ackTimeout !== null) await this.#client.answer(ring.application, ring.messageId, unsent);
      else if (unsent.kind !== "ack")
        this.#tell(`${name}: ${unsent.kind} has no effect, because the alarm has no ackTimeout`, undefined, ring);
    } catch (error) {
      this.#tell(`answer to ${name}: ${textOf(error)}`, error, ring);
      if (error instanceof ClockdError && error.again) return;
    }
    this.#memory.end(ring.messageId, null);
  }

  /** Returns the answer of the handler; null: there is none. */
  async #answerOf(ring: Ring): Promise<Answer | null> {
    try {
      const answer: unknown = await this.#handle(ring, this.#work.signal);
      if (answer === undefined || answer === null) return ack();
      if (!isAnswer(answer)) throw new TypeError(`it returned ${typeof answer}, not an Answer or nothing`);
      return answer.kind === "none" ? null : answer;
    } catch (error) {
      this.#tell(
        `handler of ring ${ring.messageId} of ${ring.application}/${ring.businessId}: ${textOf(error)}`,
        error,
        ring,
      );
      return null;
    }
  }

  #tell(text: string, cause?: unknown, ring: Ring | null = null): void {
    const report = async () => this.#options.onFault(new Fault(text, cause, ring));
    report().catch((error: unknown) => console.error(`onFault has failed for: ${text}: ${textOf(error)}`));
  }
}

function* feed(events: EventReader, part: string, status: number): ReturnType<EventReader["feed"]> {
  try {
    yield* events.feed(part);
  } catch (error) {
    throw error instanceof RangeError ? call.unreadable(status, error) : error;
  }
}

/** Returns the text of anything that was thrown. */
function textOf(error: unknown): string {
  try {
    return error instanceof ClockdError ? error.message : String(error);
  } catch {
    return "an error without a text";
  }
}
