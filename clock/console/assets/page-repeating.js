// The repeating alarms of all applications, or of one.

import {curlOf, quoted} from './actions.js';
import {address, get} from './api.js';
import {alarmLink, applicationLink, badge, copyButton, nextTime, pager, trouble} from './parts.js';
import {count, instant, plural} from './format.js';
import {el, empty, pending, replace} from './dom.js';
import {applicationField, prefixField} from './fields.js';
import {knownApplications, unknownApplication} from './known.js';
import {selectable} from './selection.js';

const choices = [['', 'all'], ['scheduled,ringing', 'scheduled or ringing'], ['paused', 'paused'], ['rung,expired,dead,cancelled', 'ended']];

export function title(state) { return state.application ? `Repeating alarms of ${state.application}` : 'Repeating alarms'; }

export async function show(view) {
  const result = view.result = pending();
  const known = await knownApplications(view.signal);
  replace(view.body, filterForm(view, known), result);
  const page = await get('v1/repeating', listQuery(view.state), view.signal);
  if (page.alarms.length === 0) return replace(result, nothing(view, page, unknownApplication(view.state.application, known)), pager('repeating', view.state, page));
  replace(result,
    el('div', {class: 'list-head'}, el('p', {}, `${plural(page.alarms.length, 'alarm')} on this page${page.next_cursor ? ', more follow' : ''}.`), copies(view.state)),
    selectable(view, 'Repeating alarms', columns(view.state.application), page.alarms), pager('repeating', view.state, page));
}

function listQuery({application, state, prefix, cursor}) { return {application, state, prefix, cursor}; }

function filterForm(view, known) {
  const {application, prefix, state} = view.state;
  const form = el('form', {class: 'filter', submit: event => {
    event.preventDefault();
    const data = new FormData(form);
    view.go('repeating', {application: data.get('application').trim(), prefix: data.get('prefix'), state: data.get('state')});
  }},
  applicationField(application, known),
  prefixField(prefix),
  el('p', {class: 'field'}, el('label', {for: 'state'}, 'State'), el('select', {id: 'state', name: 'state'}, choices.map(([value, name]) => el('option', {value, selected: value === (state || '')}, name)))),
  el('p', {class: 'buttons'}, el('button', {type: 'submit', class: 'primary'}, 'Show')));
  return form;
}

function columns(application) {
  return [
    {head: 'Business id', cell: alarmLink},
    !application && {head: 'Application', cell: a => applicationLink(a.application)},
    {head: 'State', cell: a => badge(a.state)},
    {head: 'Rings', cell: a => a.repeat_sentence || ''},
    {head: 'Next', cell: a => [nextTime(a), el('span', {class: 'then'}, following(a))]},
    {head: 'Rung', class: 'number', cell: a => a.occurrence ? count(a.occurrence.rung) : '–'},
    {head: 'Not rung', cell: a => a.occurrence ? el('span', {class: a.occurrence.failed_in_row > 1 ? 'bad' : null}, notRung(a.occurrence)) : ''},
    {head: 'Last error, and why it waits', cell: a => trouble(a)},
  ].filter(Boolean);
}

/** Returns how many occurrences did not ring, and why. */
function notRung(occurrence) {
  return [['failed', occurrence.failed], ['failed in a row', occurrence.failed_in_row > 1 ? occurrence.failed_in_row : 0], ['missed', occurrence.missed + occurrence.outside_window], ['skipped', occurrence.skipped]].filter(([, n]) => n > 0).map(([why, n]) => `${count(n)} ${why}`).join(', ');
}

/** Returns the occurrences after the next one, in words; "" if there are none, or if the alarm does not ring. */
function following(alarm) {
  const times = alarm.next_try_time && alarm.next_occurrences ? alarm.next_occurrences.filter(at => at > alarm.next_try_time) : [];
  return times.length > 0 ? `then ${times.map(instant).join(', ')}` : '';
}

function nothing(view, page, unknown) {
  if (unknown) return empty('No repeating alarm matches the filter.', unknown);
  if (page.next_cursor) return empty('No repeating alarm in this part of the list matches the filter.', 'The server has looked at many alarms. Go on with the next page.');
  if (view.state.cursor) return empty('The list has no more alarms.');
  return empty('No repeating alarm matches the filter.', 'An alarm repeats when its set has a rule, such as ', el('code', {}, 'clockd set APPLICATION ID --cron "0 9 * * mon-fri"'), '.');
}

function copies(state) {
  const words = ['clockd', 'repeat', 'list', '--server', address('').href.replace(/\/$/, '')];
  for (const [flag, value] of [['--state', state.state], ['--prefix', state.prefix]]) if (value) words.push(flag, value);
  if (state.application) words.push(state.application);
  return el('p', {class: 'copies'}, el('span', {class: 'muted'}, 'Copy this list as'),
    copyButton('curl', curlOf(quoted(address('v1/repeating', listQuery(state)).href))), copyButton('command', words.map(quoted).join(' ')));
}
