// Dead and expired alarms by application and by cause, with kick and discard.

import {get} from './api.js';
import {actions} from './actions.js';
import {alarmLink, applicationLink, badge, counted, pager, when} from './parts.js';
import {bulkButtons} from './bulk.js';
import {readsOnly} from './caller.js';
import {count, plural} from './format.js';
import {el, empty, pending, replace, section, table} from './dom.js';
import {href} from './url.js';
import {applicationField, prefixField} from './fields.js';
import {knownApplications, unknownApplication} from './known.js';
import {causes} from './causes.js';
import {runAll} from './runall.js';

const byName = Object.fromEntries(actions.map(a => [a.name, a]));

/** The most alarms that are read to group them. */
const readLimit = 1000;

export function title(state) { return state.application ? `Dead alarms of ${state.application}` : 'Dead alarms'; }

export async function show(view) {
  if (view.state.application) return showCauses(view);
  const {cursor} = view.state;
  const page = await get('v1/applications', {attention: true, limit: 100, cursor}, view.signal);
  const affected = page.applications.filter(a => a.counts.dead + a.counts.expired > 0);
  const next = pager('dead', {cursor}, page);
  if (affected.length === 0) return replace(view.body, empty(page.next_cursor ? 'No application of this page has a dead or expired alarm.' : 'No application has a dead or expired alarm.', 'Alarms come here when their retries or rings are used up, when they are buried, or when their latest time to ring passes.'), next);
  replace(view.body, table('Applications with dead alarms', [
    {head: 'Application', cell: a => applicationLink(a.application)},
    {head: 'Dead', class: 'number', cell: a => counted(a, 'dead')},
    {head: 'Expired', class: 'number', cell: a => counted(a, 'expired')},
    {head: 'Next step', cell: a => el('a', {href: href('dead', {application: a.application})}, `Causes in ${a.application}`)},
  ], affected), next);
}

async function showCauses(view) {
  const {application, prefix} = view.state;
  const state = view.state.state || 'dead,expired';
  const result = view.result = pending();
  const known = await knownApplications(view.signal);
  replace(view.body, filterForm(view, known), result);
  const page = await get(`v1/applications/${encodeURIComponent(application)}/alarms`, {state, prefix, limit: readLimit}, view.signal);
  if (page.alarms.length === 0) {
    return replace(result, page.next_cursor ? empty('The first part of the list has no such alarm.', 'Use a prefix, so that the server looks at fewer alarms.') : empty('No alarm of this application matches.', unknownApplication(application, known) || 'Nothing is to do here.'));
  }
  const many = page.next_cursor !== null;
  replace(result,
    el('p', {class: 'hint'}, many ? `These are the first ${count(page.alarms.length)} alarms of the filter. There are more.` : `${plural(page.alarms.length, 'alarm')} of the filter, grouped by cause.`),
    bulkButtons(view, {application, prefix, states: state.split(',')}, ['kick', 'discard']),
    causes(page.alarms).map(group => section(`${count(group.alarms.length)} × ${group.cause}`, causeBody(view, group))));
}

function filterForm(view, known) {
  const form = el('form', {class: 'filter', submit: event => {
    event.preventDefault();
    const data = new FormData(form);
    view.go('dead', {application: data.get('application').trim(), state: data.get('state'), prefix: data.get('prefix')});
  }},
  applicationField(view.state.application, known),
  el('p', {class: 'field'}, el('label', {for: 'state'}, 'State'), el('select', {id: 'state', name: 'state'},
    [['', 'dead and expired'], ['dead', 'dead'], ['expired', 'expired']].map(([value, name]) => el('option', {value, selected: value === (view.state.state || '')}, name)))),
  prefixField(view.state.prefix),
  el('p', {class: 'buttons'}, el('button', {type: 'submit'}, 'Show')));
  return form;
}

function causeBody(view, group) {
  const shown = group.alarms.slice(0, 5);
  return [
    table(`Alarms with this cause: ${group.cause}`, [
      {head: 'Business id', cell: alarmLink}, {head: 'State', cell: a => badge(a.state)}, {head: 'Ended', cell: a => when(a.finished_at)}, {head: 'Last error', cell: a => el('span', {class: 'error-text'}, a.last_error || '')},
    ], shown),
    group.alarms.length > shown.length && el('p', {class: 'muted'}, `and ${plural(group.alarms.length - shown.length, 'more alarm')}`),
    el('p', {class: 'buttons'}, ['kick', 'discard'].map(name => el('button', {type: 'button', 'data-action': name, disabled: readsOnly(), click: () => runAll(view, byName[name], group.alarms, group.alarms)}, `${byName[name].verb} ${plural(group.alarms.length, 'alarm')}`))),
  ];
}
