// The life of an alarm as a timeline.

import {distance} from './parts.js';
import {duration, exact, now, plural} from './format.js';
import {el} from './dom.js';
import {href} from './url.js';

const outcomes = {
  confirmed: 'Rung, and rung again', returned: 'Try failed: no queue takes the ring', nacked: 'Try failed: the target refused the ring', in_doubt: 'Try in doubt: no confirm arrived',
  refused: 'Try failed: the receiver refused the ring', unsent: 'Try failed before the ring was sent', untaken: 'Try failed: nobody took the ring',
  released: 'Ring released by the application', buried: 'Ring buried by the application', unacknowledged: 'Ring not acknowledged in time',
};

/** A restore of the database makes each generation so much higher. */
const raised = 1_000_000;

const ends = {rung: 'Finished: rung', expired: 'Expired', dead: 'Dead'};
const answers = {ack: 'Acknowledged', release: 'Released', bury: 'Buried', touch: 'Asked for more time'};

// The events of the alarm that a person may have caused, with the class of their moments.
const acts = {
  paused: ['Paused', 'paused'], resumed: ['Resumed', 'set'], triggered: ['Triggered', 'ringing'], kicked: ['Kicked', 'ringing'], discarded: ['Discarded', 'cancelled'], cancelled: ['Cancelled', 'cancelled'],
  backfilled: ['Backfill begun', 'ringing'], backfill_ended: ['Backfill ended', 'set'], bulk: ['Bulk job begun', 'plan'],
  application_paused: ['Application paused', 'paused'], application_resumed: ['Application resumed', 'set'],
};

// The events of which the alarm itself tells the last one of its current generation, with the member that has its time.
const past = {
  rung: ['Rung', 'rung', 'rung_at'], acknowledged: ['Acknowledged', 'rung', 'answered_at'], touched: ['Asked for more time', 'rung', 'answered_at'],
  expired: ['Expired', 'expired', 'finished_at'], dead: ['Dead', 'dead', 'finished_at'],
};

/** Returns the moments of an alarm's life, in order. A moment has its time, a kind, a text and details. */
function moments(alarm, events) {
  return [...sets(alarm, events), ...tries(alarm), ...ringsAndAnswers(alarm), ...ending(alarm), ...acted(alarm, events), ...future(alarm)].filter(m => m.at).sort((a, b) => Date.parse(a.at) - Date.parse(b.at) || a.rank - b.rank);
}

function sets(alarm, events) {
  const known = new Set(events.filter(e => ['created', 'set', 'triggered'].includes(e.event)).map(e => e.generation));
  const forgotten = (alarm.generation - known.size) % raised;
  return events.filter(e => e.event === 'created' || e.event === 'set').map(e => {
    const first = e.event === 'created';
    const detail = [e.ring_at && `for ${exact(e.ring_at)}`, !first && `generation ${e.generation}`, first && forgotten > 0 && `then ${plural(forgotten, 'change')} whose traces are gone`];
    return {at: e.at, rank: 0, kind: 'set', text: first ? 'Set' : 'Set again', detail: joined(detail)};
  });
}

function tries(alarm) {
  return (alarm.attempts || []).map(a => ({
    at: a.time, rank: 1, kind: a.outcome === 'released' || a.outcome === 'confirmed' ? 'ringing' : 'dead', text: outcomes[a.outcome] || a.outcome,
    detail: [a.error, a.by && `by ${a.by}`, `generation ${a.generation}, ring ${a.ring_no}`].filter(Boolean).join(' · '),
  }));
}

function ringsAndAnswers(alarm) {
  const due = alarm.occurrence ? null : alarm.ring_at;
  const late = due && alarm.rung_at ? `${duration(Math.max(0, (Date.parse(alarm.rung_at) - Date.parse(due)) / 1000))} after the time of the set` : '';
  const attempted = (alarm.attempts || []).some(a => a.time === alarm.answered_at); // a release and a bury are attempts, too
  return [
    {at: alarm.rung_at, rank: 2, kind: 'rung', text: alarm.in_doubt ? 'Rung; the outcome is in doubt' : alarm.repeat ? 'Rung' : `Rung (ring ${alarm.ring_no})`, detail: late},
    {at: attempted ? null : alarm.answered_at, rank: 3, kind: 'rung', text: answers[alarm.answer] || '', detail: alarm.answered_by ? `by ${alarm.answered_by}` : ''},
  ];
}

function ending(alarm) {
  if (!ends[alarm.state] || alarm.state === 'rung' && alarm.finished_at === alarm.rung_at) return [];
  return [{at: alarm.finished_at, rank: 4, kind: alarm.state, text: ends[alarm.state], detail: alarm.state === 'rung' ? '' : alarm.last_error}];
}

function acted(alarm, events) {
  const last = e => e.generation === alarm.generation && e.at === alarm[past[e.event]?.[2]];
  const told = e => acts[e.event] || !last(e) && past[e.event];
  return events.filter(told).map(e => {
    const [text, kind] = told(e);
    return {
      at: e.at, rank: e.job ? 0 : 4, kind, text: e.by ? `${text} by ${e.by}` : text, job: e.job,
      detail: joined([e.detail, past[e.event] && `generation ${e.generation}`, e.job && 'it may have changed this alarm']),
    };
  });
}

function joined(details) { return details.filter(Boolean).join(' · '); }

function future(alarm) {
  const all = [];
  const upcoming = alarm.next_occurrences || [];
  if (alarm.next_try_time) all.push({at: alarm.next_try_time, rank: 5, kind: 'next', text: nextText(alarm)});
  if (!alarm.repeat && alarm.ring_at !== alarm.next_try_time) all.push({at: alarm.ring_at, rank: 0, kind: 'plan', text: 'Was set for this time (ring_at)'});
  for (const at of upcoming) if (at !== alarm.next_try_time) all.push({at, rank: 5, kind: 'plan', text: 'Occurrence'});
  if (alarm.latest_ring_at) all.push({at: alarm.latest_ring_at, rank: 6, kind: 'plan', text: alarm.finished_at ? 'Latest time to ring' : 'Expires unless it has rung'});
  return all;
}

function nextText(alarm) {
  if (alarm.state === 'ringing') return alarm.rung_at ? 'Rings again unless it is acknowledged' : 'End of the claim: rings again if the outcome is still unknown';
  if (alarm.retry_times > 0 || alarm.in_doubt) return 'Next try';
  if (Date.parse(alarm.next_try_time) < now()) return 'Was due, and waits';
  return alarm.repeat ? 'Next ring' : 'Rings';
}

/** Returns the timeline as a list. A line shows where now is. */
export function timeline(alarm, events) {
  const all = moments(alarm, events);
  const line = el('li', {class: 'now'}, el('span', {class: 'dot', 'aria-hidden': 'true'}), el('span', {class: 'what'}, 'Now'), el('span', {class: 'muted'}, exact(new Date(now()).toISOString())));
  const items = all.map(m => el('li', {class: `moment ${m.kind}`},
    el('span', {class: 'dot', 'aria-hidden': 'true'}),
    el('span', {class: 'what'}, m.text), el('time', {datetime: m.at}, exact(m.at), ' ', distance(m.at)),
    m.detail && el('span', {class: 'detail'}, m.detail, m.job && [' · ', el('a', {href: href('jobs', {job: m.job})}, 'the job')])));
  const next = all.findIndex(m => Date.parse(m.at) > now());
  items.splice(next < 0 ? items.length : next, 0, line);
  return el('ol', {class: 'timeline'}, items);
}
