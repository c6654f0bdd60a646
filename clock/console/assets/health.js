// How an application fares.

import {counted, distance, isOverdue, waits, when} from './parts.js';
import {el} from './dom.js';
import {href} from './url.js';
import {plural} from './format.js';

/** Returns the health of an application of a page in words. */
export function health(a, page) {
  if (!a.target) return el('span', {class: 'bad'}, `cannot ring: ${waits(a.blockers) || 'this node has no target for it'}`);
  if (a.paused) return el('span', {class: 'warn'}, 'paused by a person');
  if (isOverdue(a, page)) return el('span', {class: 'warn'}, 'overdue since ', when(a.oldest_overdue), a.blockers.length > 0 && `: ${waits(a.blockers)}`);
  if (a.blockers.length > 0) return el('span', {class: 'warn'}, `due alarms would wait: ${waits(a.blockers)}`);
  return el('span', {class: 'good'}, 'on time');
}

/** Returns when an application last set or cancelled an alarm. */
export function lastSeen(a) { return a.last_seen ? distance(a.last_seen) : '–'; }

/** Returns the number of an application's alarms in a state, as a link to them. */
export function stateCount(a, state) {
  if (!a.counts) return '–';
  const n = a.counts[state];
  const text = counted(a, state);
  if (n === 0) return text;
  const page = state === 'dead' || state === 'expired' ? 'dead' : 'alarms';
  return el('a', {href: href(page, {application: a.application, state}), 'aria-label': `${plural(n, `${state} alarm`)} of ${a.application}`}, text);
}
