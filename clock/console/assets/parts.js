// Parts that several pages show.

import {el} from './dom.js';
import {href} from './url.js';
import {count, exact, instant, relative} from './format.js';
import {notify} from './notice.js';

/** Returns the badge of a state. */
export function badge(state) { return el('span', {class: `badge ${state}`}, state); }

/** Returns an instant with its distance from now. */
export function when(iso, none = '–') {
  if (!iso) return none;
  return el('time', {datetime: iso, title: `${exact(iso)} (${iso})`}, instant(iso), ' ', distance(iso));
}

/** Returns how far an instant is from now. refreshDistances keeps it current. */
export function distance(iso) {
  return el('span', {class: 'distance', 'data-at': iso}, relative(iso));
}

/** Brings all distances on the page up to date. */
export function refreshDistances() {
  for (const span of document.querySelectorAll('.distance')) {
    const text = relative(span.dataset.at);
    if (span.textContent !== text) span.textContent = text;
  }
}

/** Returns a link to the page of an alarm. */
export function alarmLink(alarm) {
  return el('a', {href: href('alarm', {application: alarm.application, id: alarm.business_id}), class: 'id'}, alarm.business_id);
}

/** Returns a link to the page of an application. */
export function applicationLink(name) {
  return el('a', {href: href('application', {application: name}), class: 'id'}, name);
}

/** Returns when an alarm is next due, what a paused one is set for, or when it ended. */
export function nextTime(alarm) {
  if (alarm.next_try_time) return when(alarm.next_try_time);
  if (alarm.state === 'paused' && !alarm.repeat) return el('span', {class: 'ended'}, 'set for ', when(alarm.ring_at));
  return alarm.finished_at ? el('span', {class: 'ended'}, 'ended ', when(alarm.finished_at)) : '–';
}

/** Returns a button that copies a text. */
export function copyButton(label, text) {
  return el('button', {type: 'button', class: 'small', click: async () => {
    try {
      await navigator.clipboard.writeText(text);
      notify('done', 'Copied: ', el('code', {}, text));
    } catch {
      notify('done', 'The browser does not let this page copy. The text is: ', el('code', {}, text));
    }
  }}, label);
}

/** Returns why due alarms wait, in words; "" without a reason. */
export function waits(blockers) {
  return blockers.map(b => (b.target ? `${b.target}: ` : '') + b.detail).join('; ');
}

/** Returns the last error of an alarm, and why it waits. */
export function trouble(alarm) {
  return [alarm.last_error, alarm.blockers.length > 0 && `waits: ${waits(alarm.blockers)}`].filter(Boolean).map(text => el('div', {class: 'error-text'}, text));
}

/** Returns that the application is paused. */
export function pausedApplication() { return el('p', {class: 'warn'}, 'The application is paused: none of its alarms rings until it is resumed.'); }

/** Reports whether an application of a page has an alarm that is due for more than a second. */
export function isOverdue(application, page) {
  return application.oldest_overdue !== null && Date.parse(page.database_time) - Date.parse(application.oldest_overdue) > 1000;
}

/** Returns the number of an application's alarms in a state; with ≥ where the service did not count them all. */
export function counted(a, state) {
  const all = ['expired', 'dead', 'paused'].includes(state) ? a.counts.attention_complete : a.counts.complete;
  return atLeast(a.counts[state], all);
}

/** Returns a number, with ≥ if it is not complete. */
export function atLeast(n, complete) { return (complete || n === 0 ? '' : '≥ ') + count(n); }

/** Returns the links between the pages of a list. state is the page's, names are those of the links. */
export function pager(view, {cursor, ...first}, page, [begin, next] = ['First page', 'Next page']) {
  return el('nav', {class: 'pager', 'aria-label': 'Pages of the list'},
    cursor && el('a', {href: href(view, first)}, begin), page.next_cursor && el('a', {href: href(view, {...first, cursor: page.next_cursor})}, next));
}

/** Returns a list of names and values, without the values that are missing. */
export function facts(pairs) {
  return el('dl', {class: 'facts'}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== '').map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

/** Returns the columns of a table of alarms. */
export function alarmColumns(withApplication) {
  return [
    {head: 'Business id', cell: alarmLink},
    ...withApplication ? [{head: 'Application', cell: a => applicationLink(a.application)}] : [],
    {head: 'State', cell: a => [badge(a.state), a.in_doubt && el('span', {class: 'badge doubt'}, 'in doubt')]},
    {head: 'Due', cell: nextTime},
    {head: 'Rings', class: 'number', cell: a => String(a.occurrence ? a.occurrence.rung : a.ring_no)},
    {head: 'Failed tries', class: 'number', cell: a => String(a.retry_times)},
    {head: 'Last error, and why it waits', cell: a => trouble(a)},
  ];
}
