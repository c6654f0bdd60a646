// The known applications, with their state and figures.

import {applicationLink, pager} from './parts.js';
import {count, duration, rate} from './format.js';
import {el, empty, replace, table} from './dom.js';
import {health, lastSeen, stateCount} from './health.js';
import {get, unless} from './api.js';

export function title() { return 'Applications'; }

export async function show(view) {
  const {cursor} = view.state;
  const [page, stats] = await Promise.all([get('v1/applications', {limit: 100, cursor}, view.signal), statsByApplication(view.signal)]);
  draw(view, page, stats);
  draw(view, await get('v1/applications', {counts: true, limit: 100, cursor}, view.signal), stats); // counting takes longer
}

function draw(view, page, stats) {
  const {cursor} = view.state;
  if (page.applications.length === 0) {
    return replace(view.body, empty(cursor ? 'There are no more applications.' : 'No application has set an alarm yet.', 'An application appears with its first alarm, or with its first settings.'));
  }
  replace(view.body,
    el('p', {class: 'hint'}, 'Scheduled and ringing alarms are counted among the first 1,000 of an application, paused, dead and expired alarms up to 1,000; ≥ stands before a count that is not complete. Last seen: the last set or cancel, to about a minute. Rates, failed tries and lateness: of the last hour, of the busiest applications.'),
    table('Applications', columns(stats, page), page.applications),
    pager('applications', {cursor}, page));
}

/** Returns the figures of the busiest applications in the last hour, by name; none while there are no figures. */
async function statsByApplication(signal) {
  const stats = await unless(503, get('v1/stats', {range: 'hour'}, signal));
  return new Map(stats?.applications.map(a => [a.application, a]));
}

/** Returns how many tries of rings failed: also those of repeating alarms, which are not dead after that. */
function failedTries(figures) {
  const n = figures?.failed_tries || 0;
  return n > 0 ? el('span', {class: 'bad'}, count(n)) : '0';
}

function columns(stats, page) {
  const number = (head, state) => ({head, class: 'number', cell: a => stateCount(a, state)});
  return [
    {head: 'Application', cell: a => applicationLink(a.application)},
    {head: 'Health', cell: a => health(a, page)},
    {head: 'Last seen', cell: a => lastSeen(a)},
    {head: 'Target', cell: a => a.target || 'none'},
    number('Scheduled', 'scheduled'), number('Ringing', 'ringing'), number('Paused', 'paused'), number('Dead', 'dead'), number('Expired', 'expired'),
    {head: 'Rings/s', class: 'number', cell: a => rate((stats.get(a.application)?.rings || 0) / 3600)},
    {head: 'Failed', class: 'number', cell: a => failedTries(stats.get(a.application))},
    {head: 'Lateness p99', class: 'number', cell: a => duration(stats.get(a.application)?.lateness_p99)},
  ];
}
