// What people did: the acts that the audit records.

import {applicationLink, pager, when} from './parts.js';
import {el, empty, pending, replace, table} from './dom.js';
import {applicationField, textField} from './fields.js';
import {get} from './api.js';
import {href} from './url.js';
import {instant} from './format.js';
import {knownApplications, unknownApplication} from './known.js';

const actions = [
  'cancel', 'kick', 'discard', 'pause', 'resume', 'trigger', 'backfill', 'end_backfill', 'bulk_start', 'bulk_stop', 'settings', 'manifest', 'settings_seal', 'settings_unseal',
  'token_create', 'token_rotate', 'token_revoke', 'session_start', 'session_end', 'denied', 'login',
];

export function title(state) { return state.application ? `Audit of ${state.application}` : 'Audit'; }

export async function show(view) {
  const {cursor, ...filter} = view.state;
  const {application, subject} = filter;
  const result = view.result = pending();
  const known = await knownApplications(view.signal);
  replace(view.body, filterForm(view, known), result);
  if (subject && !application) return replace(result, empty('Name the application of the business id, too.'));
  const page = await get('v1/audit', {...filter, cursor, limit: 100}, view.signal);
  replace(result,
    page.acts.length === 0 ? nothing(page, unknownApplication(application, known)) : table('Acts', columns, page.acts),
    subject && el('p', {class: 'hint'}, 'What bulk jobs did to an alarm is in its life, and in ', el('a', {href: href('jobs', {application})}, 'the jobs'), '.'),
    pager('audit', view.state, page, ['Newest acts', 'Older acts']));
}

function filterForm(view, known) {
  const {application, subject, actor, action} = view.state;
  return el('form', {class: 'filter', submit: event => {
    event.preventDefault();
    view.go('audit', Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, value.trim()])));
  }},
  applicationField(application, known), textField('subject', 'Business id or job, with an application', subject), textField('actor', 'Who', actor),
  el('p', {class: 'field'}, el('label', {for: 'action'}, 'Act'), el('select', {id: 'action', name: 'action'}, ['', ...actions].map(name => el('option', {value: name, selected: name === (action || '')}, spoken(name) || 'all acts')))),
  el('p', {class: 'buttons'}, el('button', {type: 'submit'}, 'Show')));
}

function nothing(page, unknown) {
  return empty(page.next_cursor ? 'This part of the audit has no such act. Go on with older acts.' : 'The audit has no such act.', unknown, 'What people do to alarms, settings and tokens, refused requests, and logins of operators and admins appear here until their retention ends.');
}

const columns = [
  {head: 'Time', cell: act => when(act.at)},
  {head: 'Who', cell: act => [act.actor || 'anyone', act.from && el('span', {class: 'muted'}, ` from ${act.from}`)]},
  {head: 'Act', cell: act => spoken(act.action)},
  {head: 'Application', cell: act => act.application ? applicationLink(act.application) : '–'},
  {head: 'Subject', cell: subjectLink},
  {head: 'Change', cell: change},
];

function spoken(name) { return name.replaceAll('_', ' '); }

function subjectLink(act) {
  if (act.action.startsWith('bulk_')) return el('a', {href: href('jobs', {job: act.subject}), class: 'id'}, act.subject);
  if (act.application && act.subject) return el('a', {href: href('alarm', {application: act.application, id: act.subject}), class: 'id'}, act.subject);
  return act.subject ? el('code', {}, act.subject) : '–';
}

/** Returns the members that the act has changed. */
function change(act) {
  const before = act.before || {}, after = act.after || {};
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(name => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return el('ul', {class: 'plain'}, names.map(name => el('li', {class: 'error-text'}, `${spoken(name)}: `, act.before ? `${text(before[name])} → ${text(after[name])}` : text(after[name]))));
}

function text(value) {
  if (value === undefined || value === null) return 'nothing';
  if (Array.isArray(value)) return value.map(text).join(', ');
  if (typeof value !== 'string') return JSON.stringify(value);
  return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ? instant(value) : value;
}
