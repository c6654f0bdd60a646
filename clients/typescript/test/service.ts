// The tests run with a clockd that client/internal/faulty/run has started.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { Client, type ClientOptions } from "../src/index.js";

export const server = process.env["CLOCKD_TEST_SERVER"] ?? "";

/** Asks the program that runs the tests for something. */
async function wish<T>(name: string, body: unknown): Promise<T> {
  const response = await fetch(`${process.env["CLOCKD_TEST_CONTROL"]}/${name}`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as T;
}

export type FaultName = "cut" | "lose" | "half" | "stall" | "half-ring" | "copies";
export type FaultyResponse = FaultName | { status: number; headers?: Record<string, string>; body?: string };

/** Returns the URL of a server whose first requests meet these faults. */
export async function faulty(...faults: FaultyResponse[]): Promise<string> {
  return (await wish<{ url: string }>("faulty", faults)).url;
}

/** Returns the requests of a faulty server. */
export function asked(url: string): Promise<string[]> {
  return wish("asked", { url });
}

/** Starts a clockd of the caller alone, or the one that was killed. */
export async function startClockd(killed?: string): Promise<string> {
  return (await wish<{ url: string }>("start", killed ? { url: killed } : {})).url;
}

export function killClockd(url: string): Promise<unknown> {
  return wish("kill", { url });
}

/** Changes the target of an application. */
export function setTarget(application: string, target: string): Promise<unknown> {
  return wish("target", { application, target });
}

/** Returns the response of a service without room. */
export function busy(code = "overloaded"): FaultyResponse {
  return { status: 503, headers: { "Retry-After": "0" }, body: JSON.stringify({ code, detail: "busy" }) };
}

/** Returns an application that no other test has. */
export function newApplication(): string {
  return `node-${randomBytes(6).toString("hex")}`;
}

export function connect(url = server, options: ClientOptions = {}): Client {
  return new Client(url, options);
}

/** A queue whose reader waits. */
export class Queue<T> {
  readonly items: T[] = [];
  readonly #bell = new EventTarget();

  put(item: T): void {
    this.items.push(item);
    this.#bell.dispatchEvent(new Event("put"));
  }

  async take(): Promise<T> {
    while (this.items.length === 0) await once(this.#bell, "put");
    return this.items.shift()!;
  }
}
