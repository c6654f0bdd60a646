// Runs clockd on SQLite, and sets alarms that reach every state.

import {mkdtemp, rm} from 'node:fs/promises';
import {execFileSync, spawn} from 'node:child_process';
import {createInterface} from 'node:readline';
import {tmpdir} from 'node:os';
import path from 'node:path';

/** The program under test. */
export const program = path.resolve(import.meta.dirname, '../../bin/clockd');

/** Starts clockd on a free port. tokens are the roles of the tokens that it gets, by name; without tokens it needs none. settings are further
 * variables. Returns its address, its database, the texts of its tokens, a function for requests, and a function that stops it. */
export async function startService(tokens = {}, settings = {}) {
  const folder = await mkdtemp(path.join(tmpdir(), 'clockd-console-'));
  const database = `sqlite:${folder}/clockd.db`;
  const texts = {};
  if (Object.keys(tokens).length > 0) execFileSync(program, ['migrate'], {env: {CLOCKD_DATABASE_URL: database}, stdio: 'pipe'});
  for (const [name, role] of Object.entries(tokens)) {
    const out = execFileSync(program, ['token', 'create', name, '--role', role, '--applications', '*'], {env: {CLOCKD_DATABASE_URL: database}, encoding: 'utf8', stdio: 'pipe'});
    [texts[name]] = /clockd_[0-9A-Za-z_]+/.exec(out);
  }
  const server = spawn(program, ['serve'], {
    env: {PATH: process.env.PATH, CLOCKD_LISTEN: '127.0.0.1:0', CLOCKD_DATABASE_URL: database, CLOCKD_NODE: 'node-1', ...settings}, stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  server.stderr.on('data', text => { log += text; });
  const url = await new Promise((found, failed) => {
    createInterface({input: server.stdout}).on('line', line => {
      const address = /http:\/\/127\.0\.0\.1:\d+/.exec(line);
      if (address) found(address[0]);
    });
    server.on('exit', code => failed(new Error(`clockd ended with ${code}\n${log}`)));
  });
  const stop = async () => {
    server.removeAllListeners('exit');
    const ended = new Promise(done => server.once('exit', done));
    server.kill('SIGTERM');
    await ended;
    await rm(folder, {recursive: true, force: true});
  };
  return {url, database, texts, stop, log: () => log, call: (method, target, body, headers) => call(url, method, target, body, headers)};
}

/** Sends a request and returns the status and the JSON of the response. */
async function call(url, method, target, body, headers = {}) {
  const response = await fetch(url + target, {method, headers: {'Content-Type': 'application/json', ...headers}, body: body === undefined ? undefined : JSON.stringify(body)});
  const text = await response.text();
  return {status: response.status, body: text ? JSON.parse(text) : null};
}

/** Returns the path of an alarm. */
export function alarm(application, id) { return `/v1/applications/${application}/alarms/${encodeURIComponent(id)}`; }

/** Waits until the condition holds. */
export async function until(what, condition) {
  for (let i = 0; i < 200; i++) {
    if (await condition()) return;
    await new Promise(done => setTimeout(done, 100));
  }
  throw new Error(`not in time: ${what}`);
}

/** A business id that breaks pages which insert data as HTML, and paths which do not encode it. */
export const hostileID = `<img src=x onerror="alert(1)"> 50%/é+'&`;

/** Sets alarms that reach every state. */
export async function seed(service) {
  const listening = listen(service, 'shop');
  const set = async (application, id, body) => {
    const {status, body: got} = await service.call('PUT', alarm(application, id), body);
    if (status !== 201) throw new Error(`set ${id}: ${status} ${JSON.stringify(got)}`);
  };
  await set('shop', 'order-4711', {delay: '30m', payload: {order: 4711, do: 'cancel'}, retry: {limit: 5}});
  await set('shop', 'order-4712', {delay: '30m', text: 'paid'});
  await service.call('DELETE', alarm('shop', 'order-4712'));
  await set('shop', 'order-4713', {delay: '2h', text: 'wait'});
  await service.call('POST', `${alarm('shop', 'order-4713')}/pause`);
  await set('shop', 'order-4714', {delay: 0, payload: {order: 4714}});
  await set('shop', 'order-4715', {delay: 0, ack_timeout: '10m', text: 'nobody answers'});
  await set('shop', 'order-4716', {delay: 0, ack_timeout: '10m', text: 'ack'});
  await set('shop', 'order-4717', {delay: 0, ack_timeout: '10m', text: 'release'});
  await set('shop', 'order-4718', {delay: 0, ack_timeout: '10m', text: 'bury: the account is closed', latest_ring_at: '2099-01-01T00:00:00Z'});
  await set('shop', hostileID, {delay: '1h', text: '<script>alert(1)</script>'});
  await set('shop', 'report-nightly', {repeat: {cron: '30 2 * * *', time_zone: 'Europe/Berlin'}, payload: {report: 'sales'}});
  await service.call('POST', '/v1/applications/shop/alarms', {set: Array.from({length: 230}, (_, i) => ({business_id: `hold-${String(i).padStart(4, '0')}`, delay: '3h'}))});
  await service.call('POST', '/v1/applications/shop/alarms', {set: Array.from({length: 14}, (_, i) => ({business_id: `card-${String(i).padStart(2, '0')}`, delay: 0, ack_timeout: '10m', text: i % 3 ? 'bury: the card was declined' : `bury: gateway 10.0.0.${i} did not respond`}))});
  await set('bank', 'order-4711', {delay: '5h', text: 'another application'});
  await set('bank', 'transfer-1', {ring_at: '1970-01-01T00:00:00Z', latest_ring_at: Date.now() + 1000, text: 'expires'});
  await set('bank', 'transfer-2', {ring_at: '1970-01-01T00:00:00Z', text: 'overdue, because nobody subscribes'});
  await until('all states', async () => {
    const states = async application => (await service.call('GET', `/v1/applications/${application}/alarms?limit=1000`)).body.alarms.map(a => a.state);
    const [shop, bank] = [await states('shop'), await states('bank')];
    return shop.filter(s => s === 'dead').length === 15 && shop.filter(s => s === 'rung').length === 2 && bank.includes('expired') && shop.includes('ringing');
  });
  await listening.stop();
}

/** Sets this many alarms of an application, due in a day. */
export async function fill(service, application, number) {
  for (let from = 0; from < number; from += 100_000) {
    const lines = Array.from({length: Math.min(100_000, number - from)}, (_, i) => `{"business_id":"crowd-${String(from + i).padStart(6, '0')}","delay":"${24 + i % 48}h"}\n`);
    const response = await fetch(`${service.url}/v1/applications/${application}/alarms`, {method: 'POST', headers: {'Content-Type': 'application/x-ndjson'}, body: lines.join('')});
    const failed = (await response.text()).split('\n').filter(line => line && !line.includes('"status":201'));
    if (failed.length > 0) throw new Error(`set alarms: ${failed[0]}`);
  }
}

/** Subscribes to an application's rings and answers them as their text says. */
export function listen(service, application) {
  const leaving = new AbortController();
  const running = (async () => {
    const response = await fetch(`${service.url}/v1/applications/${application}/rings`, {signal: leaving.signal});
    let text = '';
    for await (const part of response.body) {
      text += new TextDecoder().decode(part);
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const data = text.slice(0, end).split('\n').find(line => line.startsWith('data: '));
        text = text.slice(end + 2);
        if (data) await answer(service, application, JSON.parse(data.slice(6)));
      }
    }
  })().catch(cause => { if (cause.name !== 'AbortError') throw cause; });
  return {stop: () => { leaving.abort(); return running; }};
}

async function answer(service, application, ring) {
  const [kind, reason] = (ring.text || '').split(': ');
  const bodies = {ack: {by: 'billing-2'}, release: {delay: '1h', reason: 'the bank is closed', by: 'billing-2'}, bury: {reason, by: 'billing-2'}};
  if (bodies[kind]) await service.call('POST', `/v1/applications/${application}/rings/${ring.message_id}/${kind}`, bodies[kind]);
}
