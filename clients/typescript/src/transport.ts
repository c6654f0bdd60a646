import { responseBytes, unreadable } from "./call.js";
import { ClockdError } from "./error.js";

/** Returns the text of a response. */
export async function readBody(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > responseBytes) {
      throw unreadable(response.status, new RangeError(`it has more than ${responseBytes} bytes`), true);
    }
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Waits. The end of the signal is an error. */
export function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(aborted(signal, false));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort();
  });
}

/** Returns the error for a call that its signal has ended. */
export function aborted(signal: AbortSignal | undefined, unconfirmed: boolean): ClockdError {
  return new ClockdError("the call was aborted", { unconfirmed, cause: signal?.reason });
}
