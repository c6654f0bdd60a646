// Finds alarms by a text, in all applications.

import {alarmColumns} from './parts.js';
import {el, empty, replace, table} from './dom.js';
import {get} from './api.js';

export function title(state) { return state.q ? `Search: ${state.q}` : 'Search'; }

export async function show(view) {
  const {q, application} = view.state;
  if (!q) return replace(view.body, empty('Nothing to search for.', 'Type a business id or a message id into the field at the top.'));
  const found = await get('v1/search', {q, application, limit: 100}, view.signal);
  if (found.alarms.length === 1 && !found.more && !application) {
    const [only] = found.alarms;
    return view.go('alarm', {application: only.application, id: only.business_id}, {replaced: true});
  }
  replace(view.body,
    found.alarms.length > 0
      ? table('Found alarms', alarmColumns(true), found.alarms)
      : empty(application ? `The application ${application} has no alarm whose business id begins with this text.` : 'No alarm has this business id or this message id.',
        'A finished alarm is deleted when its retention ends (by default after 24 hours).', 'Business ids are compared byte by byte: capital letters differ from small ones, and * stands for itself. To find ids by their beginning, name the application below.'),
    found.more && el('p', {class: 'hint'}, 'More alarms were found. A longer text finds fewer.'),
    prefixForm(view));
}

/** Returns the form that searches by the beginning of a business id, in one application. */
function prefixForm(view) {
  const input = el('input', {id: 'prefix-application', name: 'application', value: view.state.application || '', pattern: '[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}', required: true, list: 'known'});
  return el('form', {class: 'filter', submit: event => {
    event.preventDefault();
    view.go('search', {q: view.state.q, application: input.value});
  }}, el('label', {for: 'prefix-application'}, 'Also business ids that begin with this text, in the application'), input, el('button', {type: 'submit'}, 'Search'));
}
