// The bulk jobs: the newest ones, or one with its progress.

import {act, address, get} from './api.js';
import {applicationLink, copyButton, facts, when} from './parts.js';
import {bulkAction, dueRange, filterFacts, progress, refusedTotal} from './bulk.js';
import {clear, failed, notify} from './notice.js';
import {count} from './format.js';
import {el, empty, replace, section, table} from './dom.js';
import {href} from './url.js';
import {live} from './poll.js';
import {quoted} from './actions.js';

/** The colour of each status: that of a state of alarms. */
const colours = {waiting: 'scheduled', running: 'ringing', done: 'rung', stopped: 'cancelled', failed: 'dead'};

/** The states in which alarms are after some actions: they are not due at a time. */
const stopped = {pause: 'paused', cancel: 'cancelled', discard: 'cancelled'};

export function title(state) {
  if (state.job) return 'Bulk job';
  return state.application ? `Bulk jobs of ${state.application}` : 'Bulk jobs';
}

export async function show(view) { return view.state.job ? showJob(view) : showJobs(view); }

async function showJobs(view) {
  const {application} = view.state;
  const all = application && el('p', {class: 'links'}, el('a', {href: href('jobs')}, 'All applications'));
  await live(view, 5, () => get('v1/bulk', {application}, view.signal), (content, {jobs}) => {
    if (jobs.length === 0) return replace(content, all, empty('No job has changed many alarms in the last 30 days.', 'A job begins on the page of the alarms: choose a filter, then what happens to all its alarms.', el('a', {href: href('alarms')}, 'Choose a filter')));
    replace(content, all, table('Bulk jobs', [
      {head: 'Job', cell: j => el('a', {href: href('jobs', {job: j.id})}, bulkAction(j.action)?.verb || j.id)},
      {head: 'Application', cell: j => j.application ? applicationLink(j.application) : '–'},
      {head: 'Alarms', cell: filterText},
      {head: 'Status', cell: status},
      {head: 'Changed', class: 'number', cell: j => count(j.changed)},
      {head: 'Refused', class: 'number', cell: j => count(refusedTotal(j))},
      {head: 'Started', cell: j => when(j.created_at)},
      {head: 'By', cell: j => j.by},
      {head: 'Note', cell: j => j.note || ''},
    ], jobs));
  });
}

function status(job) { return el('span', {class: `badge ${colours[job.status] || ''}`}, job.status); }

function filterText(job) {
  const due = dueRange(job);
  return [job.state.join(', '), job.prefix && `begins with ${job.prefix}`, due && `due ${due}`, job.shift && `by ${job.shift}`].filter(Boolean).join('; ');
}

/** Shows a job until it has ended. */
async function showJob(view) {
  const ended = new AbortController();
  await live({...view, signal: AbortSignal.any([view.signal, ended.signal])}, 1, () => get(`v1/bulk/${encodeURIComponent(view.state.job)}`, {}, view.signal), (content, job) => {
    replace(content, drawn(view, job));
    if (job.ended_at) ended.abort();
  });
}

function drawn(view, job) {
  const action = bulkAction(job.action);
  return [
    el('div', {class: 'summary'}, status(job), el('p', {class: 'sentence', role: 'status'}, `${progress(job, Number(view.state.of || 0))}.`),
      el('p', {class: 'muted'}, 'Started ', when(job.created_at), ` by ${job.by}`, job.ended_at && [' · ended ', when(job.ended_at)])),
    !job.ended_at && el('p', {class: 'buttons'}, el('button', {type: 'button', 'data-action': 'stop', click: () => stopJob(view)}, 'Stop the job')),
    section('Filter', facts([['Action', action?.verb || job.action || 'unreadable'], ...filterFacts(job), ['Created before', when(job.frozen_at)], ['Note', job.note]]),
      el('p', {class: 'links'}, el('a', {href: href('alarms', {application: job.application, prefix: job.prefix, state: stopped[job.action], ...stopped[job.action] === 'cancelled' ? {} : {after: job.due_after, before: job.due_before}})}, stopped[job.action] ? `Alarms that are ${stopped[job.action]} now` : 'Alarms of this filter'), el('a', {href: href('jobs')}, 'All jobs')),
      action && el('p', {class: 'copies'}, el('span', {class: 'muted'}, 'Copy the same job as'), copyButton('command', command(job)))),
  ];
}

/** Returns the command of clockd that starts the same job. */
function command(job) {
  const words = ['clockd', 'bulk', 'start', '--server', address('').href.replace(/\/$/, ''), '--state', job.state.join(',')];
  const [, earlier, time] = /^(-?)(.*)$/.exec(job.shift || '');
  for (const [flag, value] of [['--prefix', job.prefix], ['--due-after', job.due_after], ['--due-before', job.due_before], [earlier ? '--earlier' : '--later', time], ['--note', job.note]]) if (value) words.push(flag, value);
  return [...words, '--', job.application, job.action].map(quoted).join(' ');
}

async function stopJob(view) {
  clear();
  try {
    await act('POST', `v1/bulk/${encodeURIComponent(view.state.job)}/stop`, {signal: view.signal});
    notify('done', 'The job ends after the alarms that it is changing now. Alarms that it has changed stay changed.');
  } catch (problem) {
    failed(view, 'The job was not stopped', problem);
  }
}
