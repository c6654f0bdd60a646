// Calls the HTTP interface.

import {noteServerTime} from './format.js';

/** The address of the service, with its prefix. */
export const root = new URL('../', document.baseURI);

let token = ''; // only in the memory of this page: a reload forgets it. A session is in a cookie, which no script can read

/** Uses a token for all further requests; '' uses none. */
export function useToken(text) {
  token = text;
}

/** A failure of a request, as the server describes it. */
export class Problem extends Error {
  constructor(status, body, retryAfter) {
    super(body.detail || `The server responded ${status}.`);
    this.status = status;
    this.code = body.code || '';
    this.field = body.field || '';
    this.alarm = body.alarm || null;
    this.requestId = body.request_id || '';
    this.retryAfter = retryAfter;
  }
}

/** Returns the path of an alarm, relative to root. */
export function alarmPath(application, id) {
  return `v1/applications/${encodeURIComponent(application)}/alarms/${encodeURIComponent(id)}`;
}

/** Returns the address of a path with a query. Empty values are left out. */
export function address(path, query = {}) {
  const url = new URL(path, root);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') url.searchParams.set(name, value);
  }
  return url;
}

/** Reads JSON. accept lists further statuses whose body is a result. */
export async function get(path, query, signal, accept = []) {
  return (await call('GET', path, {query, signal, accept})).body;
}

/** Returns what a reading has read, null after a problem with this status. */
export async function unless(status, reading) {
  try {
    return await reading;
  } catch (problem) {
    if (problem instanceof Problem && problem.status === status) return null;
    throw problem;
  }
}

/** Reads JSON. Returns its body, and the text that the server sent. */
export function getWithText(path, signal) {
  return call('GET', path, {signal, accept: []});
}

/** Sends a change, with a body or with the text of one. Without a generation, or a version, it has no condition. */
export async function act(method, path, {generation, body, text, signal} = {}) {
  const headers = {};
  if (generation !== undefined) headers['If-Match'] = `"${generation}"`;
  return (await call(method, path, {headers, body: body === undefined ? text : JSON.stringify(body), signal, accept: []})).body;
}

async function call(method, path, {query, signal, headers = {}, body, accept}) {
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(address(path, query), {method, headers, body, signal, credentials: 'same-origin', cache: 'no-store', redirect: 'error'});
  } catch (cause) {
    if (cause.name === 'AbortError') throw cause;
    throw new Problem(0, {detail: 'The server does not respond.', code: 'no_response'});
  }
  noteServerTime(response.headers.get('Date'));
  const text = await response.text();
  const result = {body: parsed(text), text};
  if (!response.ok && !accept.includes(response.status)) throw new Problem(response.status, result.body, response.headers.get('Retry-After'));
  return result;
}

/** Returns the value of a JSON text, {} if it is none: the response of a proxy, for example. */
function parsed(text) {
  try { return JSON.parse(text); } catch { return {}; }
}

/** Returns the settings of an application that are in force. Settings that cannot be read hide payloads. */
export async function settingsOf(application, signal) {
  const settings = await unless(503, get(`v1/applications/${encodeURIComponent(application)}/settings`, {}, signal));
  return settings?.effective || {hide_payload: true, paused: false};
}
