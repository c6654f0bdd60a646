/**
 * Client of clockd, the alarm clock for services. A call that fails throws a {@link ClockdError}. Durations are in
 * milliseconds.
 *
 * @packageDocumentation
 */
export type { Alarm, Attempt, Blocker, Occurrence, Payload, PayloadKind, Result, Ring, State } from "./alarm.js";
export { readRing } from "./alarm.js";
export { ack, bury, NO_ANSWER, release, touch } from "./answer.js";
export type { Answer } from "./answer.js";
export { Client } from "./client.js";
export type { CallOptions, ClientOptions, Filter } from "./client.js";
export { Fault } from "./consumer.js";
export type { ConsumeOptions, Handler } from "./consumer.js";
export { ClockdError } from "./error.js";
export type { Change, OnlyIf, Repeat, Retry, SetFields } from "./set.js";
export type { Duration, Instant } from "./values.js";
export { Verifier, WebhookError } from "./webhook.js";
export type { VerifierOptions, WebhookFault, WebhookHeaders } from "./webhook.js";
