// What people did: the acts that the audit records.

import {applicationLink, pager, when} from './parts.js';
import {el, empty, replace, table} from './dom.js';
import {get} from './api.js';
import {href} from './url.js';

export function title(state) { return state.application ? `Audit of ${state.application}` : 'Audit'; }

export async function show(view) {
  const {application, cursor} = view.state;
  const page = await get('v1/audit', {application, cursor, limit: 100}, view.signal);
  replace(view.body,
    application && el('p', {class: 'links'}, el('a', {href: href('audit')}, 'All applications')),
    page.acts.length === 0
      ? empty(page.next_cursor ? 'This part of the audit has no act on applications of your token.' : 'The audit has no act.', 'What people do to alarms, settings and tokens, refused requests, and logins of operators and admins appear here until their retention ends.')
      : table('Acts', columns, page.acts), pager('audit', {application, cursor}, page, ['Newest acts', 'Older acts']));
}

const columns = [
  {head: 'Time', cell: act => when(act.at)},
  {head: 'Who', cell: act => [act.actor || 'anyone', act.from && el('span', {class: 'muted'}, ` from ${act.from}`)]},
  {head: 'Act', cell: act => act.action.replaceAll('_', ' ')},
  {head: 'Application', cell: act => act.application ? applicationLink(act.application) : '–'},
  {head: 'Subject', cell: subject},
  {head: 'Change', cell: change},
];

function subject(act) {
  if (act.action.startsWith('bulk_')) return el('a', {href: href('jobs', {job: act.subject}), class: 'id'}, act.subject);
  if (act.application && act.subject) return el('a', {href: href('alarm', {application: act.application, id: act.subject}), class: 'id'}, act.subject);
  return act.subject ? el('code', {}, act.subject) : '–';
}

/** Returns the members that the act has changed. */
function change(act) {
  const before = act.before || {}, after = act.after || {};
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(name => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return el('ul', {class: 'plain'}, names.map(name => el('li', {class: 'error-text'}, act.before ? `${name}: ${text(before[name])} → ${text(after[name])}` : `${name}: ${text(after[name])}`)));
}

function text(value) {
  if (value === undefined || value === null) return 'nothing';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
