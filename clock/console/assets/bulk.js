// Changes all alarms of a filter: counts them, asks, and starts a job on the server.

import {act} from './api.js';
import {actions} from './actions.js';
import {readsOnly} from './caller.js';
import {clear, failed, notify} from './notice.js';
import {confirm} from './dialog.js';
import {count, instant, plural} from './format.js';
import {el} from './dom.js';
import {facts} from './parts.js';

/** The states that each action changes, as in clock/bulk/filter.go. */
const changes = {
  cancel: ['scheduled', 'ringing', 'paused'], pause: ['scheduled', 'ringing'], resume: ['paused'], shift: ['scheduled', 'paused'], kick: ['dead', 'expired'], discard: ['dead', 'expired'],
};

const shift = {name: 'shift', verb: 'Shift', done: 'shifted', effect: 'will ring that much later, or earlier. Its generation rises, as with a set. A repeating alarm stays as it is.'};

/** Returns the action of a job. */
export function bulkAction(name) { return name === 'shift' ? shift : actions.find(a => a.name === name); }

/** Returns a button for each action. A filter has an application, states (none: all), and a prefix, a first and a last instant, or not. */
export function bulkButtons(view, filter, names = Object.keys(changes)) {
  return el('p', {class: 'buttons'}, names.map(name => {
    const states = changes[name].filter(s => filter.states.length === 0 || filter.states.includes(s));
    const refusal = readsOnly() ? 'Your role is reader.' : states.length === 0 ? `It changes ${changes[name].join(' and ')} alarms, and the filter has none.` : '';
    return el('button', {type: 'button', 'data-bulk': name, disabled: refusal !== '', title: refusal, click: () => run(view, bulkAction(name), {...filter, states})}, `${bulkAction(name).verb} all`);
  }));
}

async function run(view, action, filter) {
  const body = {application: filter.application, action: action.name, state: filter.states, prefix: filter.prefix || '', due_after: filter.after || null, due_before: filter.before || null};
  if (action === shift) {
    const given = await confirm({title: 'Shift by how much?', body: el('p', {class: 'hint'}, 'Write 30m, 2h or 1d; with a minus in front, the alarms ring earlier.'), verb: 'Count the alarms', asked: [{name: 'shift', label: 'Time', text: '30m'}]});
    if (!given) return;
    body.shift = given.shift;
  }
  try {
    notify('busy', 'Counting the alarms…');
    const selection = await act('POST', 'v1/bulk', {body: {...body, dry_run: true}, signal: view.signal});
    clear();
    if (selection.count === 0 && selection.complete) return notify('done', `The filter has no alarm that can be ${action.done}: this changes ${changes[action.name].join(', ')} alarms.`);
    const confirmed = await confirm(question(action, body, selection));
    if (!confirmed) return;
    const job = await act('POST', 'v1/bulk', {body: {...body, frozen_at: selection.frozen_at, note: confirmed.note}, signal: view.signal});
    view.go('jobs', {job: job.id, of: selection.complete ? selection.count : ''});
  } catch (problem) {
    failed(view, `Nothing was ${action.done}`, problem);
  }
}

function question(action, body, selection) {
  const more = selection.complete ? '' : 'more than ';
  const verb = `${action.verb} ${more}${plural(selection.count, 'alarm')}`;
  return {
    title: `${verb}?`, verb, noted: true, typed: more || selection.count > 1000 ? body.application : '',
    body: [
      facts([...filterFacts(body), ['Alarms', more + count(selection.count)], ['For example', selection.samples.join(', ')]]),
      el('p', {}, `Each alarm ${action.effect}`), el('p', {class: 'hint'}, `Alarms that are created after ${instant(selection.frozen_at)} stay as they are. A job on the server does this, and goes on if you close the page.`),
    ],
  };
}

/** Returns what a job's filter selects, for facts. */
export function filterFacts(job) {
  return [
    ['Application', job.application], ['States', job.state.join(', ')], ['Business id begins with', job.prefix || 'anything'],
    ['Due', dueRange(job) || 'at any time'], ['Shift', job.shift],
  ];
}

/** Returns the due range of a job's filter in words, "" without one. */
export function dueRange(job) {
  return [job.due_after && `from ${instant(job.due_after)}`, job.due_before && `before ${instant(job.due_before)}`].filter(Boolean).join(' ');
}

/** Returns how many alarms a job could not change. */
export function refusedTotal(job) { return Object.values(job.refused).reduce((sum, n) => sum + n, 0); }

/** Returns how far a job is, in words. of is the number of alarms that its filter had, if it is known. */
export function progress(job, of) {
  const total = refusedTotal(job);
  const known = of > 0 && job.changed + total <= of;
  return `${known ? `${count(job.changed)} of ${plural(of, 'alarm')}` : plural(job.changed, 'alarm')} ${bulkAction(job.action)?.done || 'changed'}`
    + (total > 0 ? `, ${count(total)} refused (${Object.entries(job.refused).map(([code, n]) => `${code}: ${count(n)}`).join(', ')})` : '');
}
