// The alarms of an application: filter, pages, and actions on selected alarms.

import {curlOf, quoted} from './actions.js';
import {address, get, settingsOf} from './api.js';
import {bulkButtons} from './bulk.js';
import {alarmColumns, copyButton, pager, pausedApplication} from './parts.js';
import {fieldInstant, fieldOf, now, plural, zoneLabel} from './format.js';
import {el, empty, pending, replace} from './dom.js';
import {applicationField, prefixField} from './fields.js';
import {href} from './url.js';
import {knownApplications, unknownApplication} from './known.js';
import {selectable} from './selection.js';

const states = ['scheduled', 'ringing', 'rung', 'expired', 'dead', 'cancelled', 'paused'];

export function title(state) { return state.application ? `Alarms of ${state.application}` : 'Alarms'; }

export async function show(view) {
  const result = view.result = pending();
  const known = await knownApplications(view.signal);
  replace(view.body, filterForm(view.state, known, state => view.go('alarms', state)), presets(view.state), result);
  if (!view.state.application) return replace(result, empty('Choose an application.', 'Its alarms appear here. To find an alarm by its id in all applications, use the search at the top.'));
  if (view.state.after && view.state.before && view.state.after >= view.state.before) return replace(result, empty('No alarm matches the filter.', 'Its due time ends before it begins.'));
  if (neverDue(view.state)) return replace(result, empty('No alarm matches the filter.', waitingAlone, 'Clear the due time, or choose scheduled, ringing, or paused alone.'));
  const [page, settings] = await Promise.all([
    get(`v1/applications/${encodeURIComponent(view.state.application)}/alarms`, listQuery(view.state), view.signal), settingsOf(view.state.application, view.signal),
  ]);
  drawPage(view, result, page, unknownApplication(view.state.application, known));
  if (view.state.after || view.state.before) result.prepend(dueHint(view.state));
  if (settings.paused) result.prepend(pausedApplication());
}

/** Returns the query of the list that the page shows. */
function listQuery(state) {
  return {state: state.state, prefix: state.prefix, due_after: state.after, due_before: state.before, limit: state.limit || 100, cursor: state.cursor};
}

const waitingAlone = 'Only scheduled and ringing alarms are due at a time, and paused ones in a list of these alone.';

/** Reports whether a list has paused alarms alone. Their due time is the time at which they were to ring. */
function paused({state}) { return state === 'paused'; }

/** Reports whether the filter has a due time, and only states of alarms that are not due at a time. */
function neverDue({state, after, before}) {
  return (after || before) && state && state !== 'paused' && !state.split(',').some(s => s === 'scheduled' || s === 'ringing');
}

function dueHint(state) {
  if (paused(state)) return el('p', {class: 'hint'}, 'By the time at which each alarm was to ring.');
  return el('p', {class: 'hint'}, `By the next ring of each alarm. ${waitingAlone} Later rings of repeating alarms are in the `, el('a', {href: href('forecast', {application: state.application})}, 'forecast'), '.');
}

function filterForm(state, known, apply) {
  const chosen = new Set((state.state || '').split(',').filter(Boolean));
  const field = (label, input) => el('p', {class: 'field'}, el('label', {for: input.id}, label), input);
  const form = el('form', {class: 'filter', submit: event => {
    event.preventDefault();
    const data = new FormData(form);
    apply({
      application: data.get('application').trim(), state: data.getAll('state').join(','), prefix: data.get('prefix'),
      after: fieldInstant(data.get('after')), before: fieldInstant(data.get('before')), limit: data.get('limit') === '100' ? '' : data.get('limit'),
    });
  }},
  applicationField(state.application, known, true),
  prefixField(state.prefix),
  field(`Due from (${zoneLabel()})`, el('input', {id: 'after', name: 'after', type: 'datetime-local', step: '1', value: fieldOf(state.after)})),
  field(`Due before (${zoneLabel()})`, el('input', {id: 'before', name: 'before', type: 'datetime-local', step: '1', value: fieldOf(state.before)})),
  field('Alarms on a page', el('select', {id: 'limit', name: 'limit'}, ['100', '250', '1000'].map(n => el('option', {value: n, selected: n === (state.limit || '100')}, n)))),
  el('fieldset', {}, el('legend', {}, 'States (none: all)'),
    states.map(s => el('label', {class: 'choice'}, el('input', {type: 'checkbox', name: 'state', value: s, checked: chosen.has(s)}), ' ', s))),
  el('p', {class: 'buttons'}, el('button', {type: 'submit', class: 'primary'}, 'Show')));
  return form;
}

/** Returns links to times that people often look for. */
function presets({application, state, prefix, limit, ...chosen}) {
  if (!application) return null;
  const night = 6, evening = 18;
  const today = Date.parse(`${fieldOf(new Date(now()).toISOString()).slice(0, 10)}T00:00:00Z`); // as if the zone were UTC: each day of it has 24 hours
  const at = (days, hour) => fieldInstant(new Date(today + days * 86400000 + hour * 3600000).toISOString().slice(0, 16));
  const present = new Date(Math.floor(now() / 60000) * 60000).toISOString();
  const from = instant => instant > present ? instant : present;
  const times = [
    ['the next hour', present, new Date(Date.parse(present) + 3600000).toISOString()],
    ['today', present, at(1, 0)], present < at(0, night) ? ['tonight (until 6)', present, at(0, night)] : ['tonight (18 to 6)', from(at(0, evening)), at(1, night)], ['tomorrow', at(1, 0), at(2, 0)],
  ];
  return el('p', {class: 'links'}, el('span', {class: 'muted'}, 'Due'), times.map(([name, after, before]) => el('a', {href: href('alarms', {application, state, prefix, limit, after, before}), 'aria-current': chosen.before === before && chosen.after <= after ? 'true' : null}, name)));
}

function drawPage(view, result, page, unknown) {
  if (page.alarms.length === 0) return replace(result, nothing(view, page, unknown), page.next_cursor && changeAll(view), pager('alarms', view.state, page));
  replace(result,
    el('div', {class: 'list-head'}, el('p', {}, `${plural(page.alarms.length, 'alarm')} on this page${page.next_cursor ? ', more follow' : ''}. `, deadHint(view.state)), copies(view.state)),
    changeAll(view),
    selectable(view, `Alarms of ${view.state.application}`, alarmColumns(false), page.alarms), pager('alarms', view.state, page));
}

/** Returns the actions on all alarms of the filter. */
function changeAll(view) {
  const {application, prefix, after, before, state} = view.state;
  return el('details', {}, el('summary', {}, 'Change all alarms of this filter'), el('p', {class: 'hint'}, 'Those on further pages too. You see how many there are before anything changes.'),
    bulkButtons(view, {application, prefix, after, before, states: (state || '').split(',').filter(Boolean)}));
}

function deadHint(state) {
  const ended = (state.state || '').split(',').filter(Boolean);
  if (ended.length === 0 || ended.some(s => s !== 'dead' && s !== 'expired')) return '';
  return el('a', {href: href('dead', {application: state.application, state: state.state, prefix: state.prefix})}, 'Group these by cause, or kick and discard all of them');
}

function nothing(view, page, unknown) {
  if (unknown) return empty('No alarm matches the filter.', unknown);
  if (view.state.prefix?.includes('*')) return empty('No alarm matches the filter.', 'An asterisk stands for itself: type only the beginning of the business ids.');
  if (page.next_cursor) return empty('No alarm in this part of the list matches the filter.', 'The server has looked at many alarms. Go on with the next page.');
  return view.state.cursor ? empty('The list has no more alarms.') : empty('No alarm matches the filter.', 'Finished alarms are deleted when their retention ends (by default after 24 hours).', 'Choose other states, a shorter prefix or a longer time.');
}

function copies(state) {
  const words = ['clockd', 'list', '--server', address('').href.replace(/\/$/, '')];
  for (const [flag, value] of [['--state', state.state], ['--prefix', state.prefix], ['--due-after', state.after], ['--due-before', state.before]]) if (value) words.push(flag, value);
  const url = address(`v1/applications/${encodeURIComponent(state.application)}/alarms`, listQuery(state)).href;
  return el('p', {class: 'copies'}, el('span', {class: 'muted'}, 'Copy this list as'), copyButton('curl', curlOf(quoted(url))), copyButton('command', [...words, state.application].map(quoted).join(' ')));
}
