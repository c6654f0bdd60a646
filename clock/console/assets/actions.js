// What a person may do with an alarm in its state. The server decides again; clock/decide.go and its siblings have the rules.

import {act, alarmPath, address, Problem} from './api.js';
import {readsOnly, signedIn} from './caller.js';
import {now} from './format.js';

const over = {rung: 'it has rung', expired: 'it has expired', dead: 'it is dead', cancelled: 'it is cancelled'};

/** The actions on one alarm. effect completes "The alarm ...". refusal(alarm) returns why the action is not possible now, '' if it is. An action
 * with shown(alarm) is not shown for other alarms. asked(alarm) returns the fields that a person fills in: members of the request's body. */
export const actions = [
  {name: 'cancel', verb: 'Cancel', done: 'cancelled', suffix: '/cancel', effect: 'will not ring. It stays visible as cancelled until the retention ends.', refusal: stopping},
  {name: 'pause', verb: 'Pause', done: 'paused', suffix: '/pause', effect: 'will neither ring nor expire until somebody resumes it.',
    refusal: a => a.state === 'paused' ? 'it is paused already' : stopping(a)},
  {name: 'resume', verb: 'Resume', done: 'resumed', suffix: '/resume', effect: 'will ring at its time, or at once if that has passed.',
    refusal: a => a.state === 'paused' ? '' : over[a.state] || 'it is not paused'},
  {name: 'trigger', verb: 'Trigger', done: 'triggered', suffix: '/trigger', effect: 'will ring once, now. A repeating alarm keeps its times. Any other alarm is set again, to now, as by its application; a kick goes on with a dead one instead.',
    refusal: a => a.state === 'paused' ? 'it is paused: resume it first' : over[a.state] && a.state !== 'cancelled' && !a.repeat ? '' : inFlight(a)},
  {name: 'backfill', verb: 'Backfill', done: 'backfilled', suffix: '/backfill', shown: a => Boolean(a.repeat), asked: backfilled,
    effect: 'will ring once for each occurrence of its rule in this range, in order, whether it rang then or not.',
    refusal: a => a.state === 'paused' ? 'it is paused: resume it first' : backfills(a) ? 'a backfill runs' : over[a.state] || doubtful(a)},
  {name: 'end-backfill', verb: 'Stop backfilling', done: 'freed of its backfill', suffix: '/end-backfill', shown: backfills,
    effect: 'will not begin a further ring of its backfill.', refusal: doubtful},
  {name: 'kick', verb: 'Kick', done: 'kicked', suffix: '/kick', effect: 'will be due at once, and has all its tries again.', refusal: notDead},
  {name: 'discard', verb: 'Discard', done: 'discarded', suffix: '/discard', effect: 'will be cancelled. Its last error stays.', refusal: notDead},
].map(action => ({...action, refusal: alarm => readsOnly() ? 'your role is reader' : action.refusal(alarm)}));

/** As inFlight, but the ring of a repeating alarm that waits for its acknowledgement leaves other occurrences to stop. */
function stopping(alarm) {
  return alarm.repeat && alarm.state === 'ringing' && alarm.rung_at && !alarm.in_doubt ? '' : inFlight(alarm);
}

/** The range of a backfill: the last day, until the person changes it. */
function backfilled() {
  const end = Math.floor(now() / 60000) * 60000;
  return [
    {name: 'from', label: 'First instant', value: new Date(end - 86400000).toISOString()},
    {name: 'until', label: 'Last instant', value: new Date(end).toISOString()},
  ];
}

function backfills(alarm) { return Boolean(alarm.occurrence && alarm.occurrence.backfill && alarm.occurrence.backfill.left > 0); }

function doubtful(alarm) { return alarm.in_doubt ? 'a ring was handed over, and its outcome is unknown' : ''; }

function inFlight(alarm) {
  if (over[alarm.state]) return over[alarm.state];
  if (alarm.state === 'ringing' && alarm.rung_at) return 'it was handed over and waits for its acknowledgement';
  if (alarm.state === 'ringing') return 'a ring of it is under way';
  return doubtful(alarm);
}

function notDead(alarm) {
  return alarm.state === 'dead' || alarm.state === 'expired' ? '' : `it is ${alarm.state}, neither dead nor expired`;
}

/** Carries out an action on the alarm as the person has seen it, and returns the changed alarm. given has what the person filled in. */
export function perform(action, alarm, given, signal) {
  const members = Object.entries(given).filter(([, value]) => value);
  return act('POST', alarmPath(alarm.application, alarm.business_id) + action.suffix,
    {generation: alarm.generation, body: members.length > 0 ? Object.fromEntries(members) : undefined, signal});
}

/** Carries out an action on many alarms, some at once. progress(done, failed) is called after each. Returns the failures, with their alarms. */
export async function performAll(action, alarms, given, signal, progress) {
  const waiting = [...alarms];
  const failures = [];
  let done = 0;
  const worker = async () => {
    for (let alarm = waiting.shift(); alarm && !signal.aborted; alarm = waiting.shift()) {
      try {
        await perform(action, alarm, given, signal);
        done++;
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        failures.push({alarm, problem});
        if (problem.status === 401 || problem.status === 0) waiting.length = 0;
      }
      progress(done, failures.length);
    }
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  return {done, failures, left: waiting.length};
}

/** Returns a text as one word of a shell. */
export function quoted(text) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns the command of curl for an action, or for a read without an action. */
export function curl(alarm, action) {
  const url = quoted(address(alarmPath(alarm.application, alarm.business_id) + (action ? action.suffix : '')).href);
  if (!action) return curlOf(url);
  const body = action.asked && JSON.stringify(Object.fromEntries(action.asked(alarm).map(field => [field.name, field.value])));
  return curlOf(url, `-X POST -H 'If-Match: "${alarm.generation}"'${body ? ` -H 'Content-Type: application/json' -d ${quoted(body)}` : ''}`);
}

/** Returns the command of curl for a URL, with the token of the shell if this page needs one. */
export function curlOf(url, options = '') {
  return ['curl', signedIn() && '-H "Authorization: Bearer $CLOCKD_TOKEN"', options, url].filter(Boolean).join(' ');
}

/** Returns the command of clockd for an action, or for a read without an action. */
export function command(alarm, action) {
  const words = ['clockd', action ? action.name : 'get', '--server', address('').href.replace(/\/$/, '')];
  if (action) words.push('--generation', String(alarm.generation));
  if (action?.name === 'cancel') words.push('--note', 'by hand'); // with a note it is recorded who cancelled, as after the button
  if (action && action.asked) for (const field of action.asked(alarm)) words.push(`--${field.name}`, field.value);
  return [...words, '--', alarm.application, alarm.business_id].map(quoted).join(' ');
}
