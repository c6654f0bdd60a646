// How the service does: rates, lateness, the load to come, readiness, overdue and dead alarms.

import {address, get, unless} from './api.js';
import {causes} from './causes.js';
import {count, duration, plural, rate, timeOfDay, zoneLabel, now} from './format.js';
import {el, replace, section} from './dom.js';
import {applicationLink, atLeast, distance, isOverdue} from './parts.js';
import {chart} from './chart.js';
import {dueSeries} from './due.js';
import {href} from './url.js';
import {live} from './poll.js';

/** The most applications whose dead alarms are read for their causes. */
const causesOf = 5;

export function title(state) { return state.application ? `Overview of ${state.application}` : 'Overview'; }

export async function show(view) {
  const [known, waiting] = await Promise.all([readApplications(view, {}), readApplications(view, {attention: true})]); // once: counting is work for the database
  const opened = {known, waiting, reasons: await deadByCause(waiting.applications, view.signal)};
  const load = loadOf(view);
  await live(view, 5, () => read(view, load), (content, found) => draw(view, content, found, opened));
}

/** Reads the first page of the applications, or the one application that the overview is about. */
async function readApplications({state: {application}, signal}, query) {
  for (let cursor; ;) {
    const page = await get('v1/applications', {...query, limit: 100, cursor}, signal);
    if (!application) return page;
    const own = page.applications.filter(a => a.application === application);
    if (own.length > 0 || !page.next_cursor || page.next_cursor > application) return {...page, applications: own, next_cursor: null};
    cursor = page.next_cursor;
  }
}

async function read(view, load) {
  const {range = 'hour', application} = view.state;
  const [stats, ready, next] = await Promise.all([
    unless(503, get('v1/stats', {range, application}, view.signal)), get('readyz', {}, view.signal, [503]), load(),
  ]);
  return {stats, ready, next};
}

/** Returns a function that reads the load of the next hour, once a minute: counting is work for the database. It is null for a token that must name an
 * application. */
function loadOf(view) {
  let last = null, readAt = 0;
  return async () => {
    if (Date.now() - readAt < 60_000) return last;
    last = await unless(422, get('v1/forecast', {by: 'minute', application: view.state.application}, view.signal));
    readAt = Date.now();
    return last;
  };
}

/** Reads some dead alarms of the applications that have the most of them, and groups them by cause. */
async function deadByCause(applications, signal) {
  const affected = applications.filter(a => dead(a) > 0).sort((a, b) => dead(b) - dead(a)).slice(0, causesOf);
  return Promise.all(affected.map(async a => {
    const page = await get(`v1/applications/${encodeURIComponent(a.application)}/alarms`, {state: 'dead,expired', limit: 100}, signal);
    return {application: a, groups: causes(page.alarms).slice(0, 3)};
  }));
}

function dead(a) { return a.counts.dead + a.counts.expired; }

/** Draws what was read now, and what was read when the page was opened. */
function draw(view, content, {stats, ready, next}, opened) {
  replace(content,
    controls(view),
    stats ? [missing(stats), tiles(stats, opened), charts(stats)] : el('p', {class: 'empty'}, 'There are no figures yet. They appear some seconds after the start.'),
    next && loadChart(view, next),
    el('div', {class: 'columns'}, section('Readiness', readiness(ready)), el('div', {}, section('Overdue', overdue(opened.known)), section('Dead alarms by cause', deadList(opened.reasons)))));
}

function controls(view) {
  const {range = 'hour', application} = view.state;
  const link = (value, name) => el('a', {href: href('overview', {application, range: value === 'hour' ? '' : value}), 'aria-current': range === value ? 'true' : null}, name);
  return el('div', {class: 'list-head'},
    el('p', {class: 'links'}, link('hour', 'Last hour'), link('day', 'Last day'), application && el('a', {href: href('overview', {range: range === 'hour' ? '' : range})}, 'All applications')),
    el('p', {class: 'muted'}, `Read at ${timeOfDay(now(), true)}, ${zoneLabel()}; again every 5 s while you look. Rates: of the last minute. Overdue and dead alarms: when the page was opened, of 100 applications at most.`));
}

/** Returns which nodes have no figures here, and why. */
function missing(stats) {
  return stats.missing.map(m => el('p', {class: 'notice'}, `Without ${m.node ? `the node ${m.node}` : 'the other nodes'}: ${m.reason}.`));
}

function loadChart(view, next) {
  const {application} = view.state;
  const due = next.due.reduce((a, b) => a + b, 0);
  return el('div', {},
    chart('Due in the next hour', {start: Date.parse(next.start), step: next.step_seconds * 1000, series: dueSeries(next, 'rings in a minute')}, {format: n => count(Math.round(n)), bars: true}),
    el('p', {class: 'hint'}, `${next.exact ? '' : 'About '}${plural(due, 'ring')} in all. `, el('a', {href: href('forecast', {application})}, 'Forecast')));
}

function tiles(stats, {known, waiting}) {
  const steps = Math.max(1, Math.round(60 / stats.step_seconds));
  const perSecond = values => rate(sum(values.slice(-steps)) / steps / stats.step_seconds);
  const last = stats.lateness_p99.findLastIndex(v => v !== null);
  const overdueNow = known.applications.filter(a => isOverdue(a, known));
  const deadNow = sum(waiting.applications.map(dead));
  const complete = !waiting.next_cursor && waiting.applications.every(a => a.counts.attention_complete);
  const tile = (name, value, note, kind = '') => el('div', {class: `tile ${kind}`}, el('dt', {}, name), el('dd', {}, value, el('span', {class: 'muted'}, note)));
  return el('dl', {class: 'tiles'},
    tile('Rings', perSecond(stats.rings), ' /s'), tile('Sets', perSecond(stats.sets), ' /s'), tile('Cancels', perSecond(stats.cancels), ' /s'),
    tile('Lateness p99', last < 0 ? '–' : duration(stats.lateness_p99[last]), last < 0 ? '' : ` at ${timeOfDay(Date.parse(stats.start) + last * stats.step_seconds * 1000, true)}`),
    tile('Overdue', el('a', {href: href('applications')}, count(overdueNow.length)), overdueNow.length === 1 ? ' application' : ' applications', overdueNow.length > 0 ? 'attention' : ''),
    tile('Dead or expired', el('a', {href: href('dead')}, atLeast(deadNow, complete)), deadNow === 1 ? ' alarm' : ' alarms', deadNow > 0 ? 'attention' : ''));
}

function sum(values) { return values.reduce((a, b) => a + b, 0); }

/** Returns the failed tries as a series, if there are any: a line at zero would hide the axis. */
function failedTries(stats, perSecond) {
  return stats.failed_tries.some(n => n > 0) ? [{name: 'failed tries', values: perSecond(stats.failed_tries)}] : [];
}

function charts(stats) {
  const at = {start: Date.parse(stats.start), step: stats.step_seconds * 1000};
  const perSecond = values => values.map(v => v / stats.step_seconds);
  return el('div', {class: 'columns even'},
    chart('Rate per second', {...at, series: [{name: 'rings', values: perSecond(stats.rings)}, {name: 'sets', values: perSecond(stats.sets)}, {name: 'cancels', values: perSecond(stats.cancels)}, ...failedTries(stats, perSecond)]}, {format: rate}),
    chart('Lateness of rings', {...at, series: [{name: 'p50', values: stats.lateness_p50}, {name: 'p99', values: stats.lateness_p99}]}, {format: duration, log: true, lowest: 0.001}));
}

// What each check of /readyz means when it is ok.
const fine = {
  database: 'The database responds.', build: 'The database accepts this build.', writes: 'Sets and cancels are written.', target: 'The target takes rings.',
  claims: 'Due alarms are claimed.', lanes: 'The ways to the target are open.', applications: 'No application is in quarantine.', paused: 'No application is paused.',
  certificate: 'The certificate is valid.', topology: 'The exchange of rings is as it should be.', leases: 'The shards have their nodes.', keys: 'Every node has the key of secrets, or none is used.',
  settings: 'The settings are current.', node: 'The name of this node is its own.', abilities: 'Every node can read and ring.', durability: 'The database keeps what it confirms.', time_zone_data: 'The time-zone data is that of this build.', authentication: 'Access is as it should be.',
};

let unfolded = false; // a person looks at the checks without a fault

function readiness(ready) {
  if (!ready.checks) return el('p', {class: 'bad'}, 'The readiness cannot be read: something before clockd responds.');
  const faults = ready.checks.filter(c => c.status !== 'ok'), others = ready.checks.filter(c => c.status === 'ok');
  const marks = {ok: ['good', 'fine'], warning: ['warn', 'warning'], failing: ['bad', 'fails']};
  const list = checks => el('ul', {class: 'checks'}, checks.map(c => {
    const [kind, word] = marks[c.status] || ['warn', c.status];
    return el('li', {}, el('span', {class: kind}, word), el('span', {}, checkSentence(c)));
  }));
  return [
    el('p', {class: ready.ready ? 'good' : 'bad'}, ready.ready ? 'This node takes sets and cancels.' : 'This node does not take sets now.'),
    list(faults),
    el('details', {open: unfolded, toggle: event => { unfolded = event.target.open; }}, el('summary', {}, `${plural(others.length, faults.length > 0 ? 'other check' : 'check')} without a fault`), list(others)),
    el('p', {class: 'hint'}, el('a', {href: address('readyz').href}, 'The same as JSON')),
  ];
}

function checkSentence(check) {
  if (check.status !== 'ok') return `${check.name}: ${check.detail || check.status}`;
  const text = fine[check.name] || `${check.name} has no fault.`;
  return check.detail ? text.replace(/\.$/, ` (${check.detail}).`) : text;
}

function overdue(page) {
  const late = page.applications.filter(a => isOverdue(a, page)).sort((a, b) => Date.parse(a.oldest_overdue) - Date.parse(b.oldest_overdue));
  if (late.length === 0) return el('p', {class: 'good'}, 'No application has an overdue alarm.');
  return el('ul', {class: 'plain'}, late.slice(0, 10).map(a => el('li', {}, applicationLink(a.application), ': the oldest was due ', distance(a.oldest_overdue), a.paused && '; the application is paused', !a.target && '; no target takes its rings')));
}

function deadList(reasons) {
  if (reasons.length === 0) return el('p', {class: 'good'}, 'No alarm is dead or expired.');
  return el('ul', {class: 'plain'}, reasons.map(({application: a, groups}) => el('li', {},
    el('a', {href: href('dead', {application: a.application})}, `${a.application}: ${plural(dead(a), 'alarm')}${a.counts.attention_complete ? '' : ' or more'}`),
    el('ul', {}, groups.map(g => el('li', {class: 'error-text'}, `${count(g.alarms.length)} × ${g.cause}`))))));
}
