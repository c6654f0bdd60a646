// One alarm: its state in a sentence, its life, the actions, and its content.

import {actions, command, curl, perform} from './actions.js';
import {alarmPath, get, getWithText, settingsOf} from './api.js';
import {applicationLink, badge, copyButton, distance, facts, pausedApplication, waits, when} from './parts.js';
import {count, duration, now, plural, zoneLabel, zoneName} from './format.js';
import {el, empty, replace, section, table} from './dom.js';
import {clear, notify, reason} from './notice.js';
import {confirm} from './dialog.js';
import {href} from './url.js';
import {live} from './poll.js';
import {layOut, memberText} from './rawjson.js';
import {timeline} from './timeline.js';

export function title(state) { return state.id || 'Alarm'; }

export async function show(view) {
  let shown = '';
  const known = {}; // the settings, and the events of the alarm as it was read last
  await live(view, 5, () => read(view, known), (content, found) => {
    const text = JSON.stringify(found);
    if (text === shown) return; // a new page would take the focus
    shown = text;
    if (found.alarm) draw(view, content, found);
    else replace(content, gone(view.state));
  });
}

/** Reads the alarm, null if there is none, and the next occurrences of a repeating one. */
async function read(view, known) {
  const path = alarmPath(view.state.application || '', view.state.id || '');
  try {
    const {body: alarm, text} = await getWithText(path, view.signal);
    known.settings ??= await settingsOf(alarm.application, view.signal);
    if (known.text !== text) [known.text, known.events] = [text, (await get(`${path}/events`, {}, view.signal)).events]; // each act changes the alarm
    const occurrences = alarm.repeat && !alarm.finished_at ? await get(`${path}/occurrences`, {count: 10}, view.signal) : null;
    return {alarm, events: known.events, payload: memberText(text, 'payload'), settings: known.settings, occurrences};
  } catch (problem) {
    if (problem.code === 'unknown_alarm') return {alarm: null};
    throw problem;
  }
}

function gone(state) {
  return empty(`The application ${state.application} has no alarm with this business id.`,
    'It was never set, or it was deleted after its retention (by default 24 hours after its end).', 'Check the capital letters and blanks of the id, or search for the beginning of the id.');
}

function draw(view, content, {alarm, events, payload, settings, occurrences}) {
  replace(content,
    el('div', {class: 'summary'}, badge(alarm.state), alarm.in_doubt && el('span', {class: 'badge doubt'}, 'in doubt'), el('p', {class: 'sentence'}, sentence(alarm)),
      settings.paused && !alarm.finished_at && pausedApplication(),
      el('p', {class: 'muted'}, 'Application ', applicationLink(alarm.application), ` · generation ${alarm.generation} · `, el('a', {href: href('audit', {application: alarm.application, subject: alarm.business_id})}, 'Audit'))),
    el('div', {class: 'columns'},
      el('div', {},
        section('Life', el('p', {class: 'hint'}, `Times in ${zoneLabel()}`), timeline(alarm, events)),
        occurrences && section('Next occurrences', occurrenceTable(alarm, occurrences))),
      el('div', {},
        section('Actions', actionList(view, alarm)),
        section('Content', contentFacts(alarm), settings.hide_payload ? hiddenPayload(alarm, payload) : payloadOf(alarm, payload)))));
}

/** Returns the alarm's state as a sentence. */
function sentence(alarm) {
  const error = alarm.last_error ? `: ${alarm.last_error}` : '.';
  const next = () => distance(alarm.next_try_time);
  switch (alarm.state) {
    case 'scheduled':
      if (alarm.in_doubt) return ['A ring was handed over, and its outcome is unknown. Next try: ', next()];
      if (Date.parse(alarm.next_try_time) < now()) return ['It is overdue: it was due ', next(), alarm.blockers.length > 0 ? `. It waits: ${waits(alarm.blockers)}` : error.replace(/\.$/, ''), '.', setFor(alarm)];
      return alarm.retry_times > 0 ? [`${plural(alarm.retry_times, 'failed try', 'failed tries')}. Next try: `, next()] : ['It rings ', next(), '.', setFor(alarm)];
    case 'ringing':
      return alarm.rung_at ? ['It rang ', distance(alarm.rung_at), '. Its time for an acknowledgement ends ', next()] : 'A ring of it is under way.';
    case 'rung':
      return alarm.answer === 'ack' ? [`It rang. ${alarm.answered_by || 'The application'} acknowledged it `, distance(alarm.answered_at)] : ['It rang ', distance(alarm.rung_at || alarm.finished_at)];
    case 'expired': return ['It expired ', distance(alarm.finished_at), error];
    case 'dead': return ['It became dead ', distance(alarm.finished_at), alarm.retry_times > 0 && ` after ${plural(alarm.retry_times, 'failed try', 'failed tries')}`, error];
    case 'cancelled': return ['It was cancelled ', distance(alarm.finished_at)];
    default: return ['It is paused: it waits until a person resumes it', error.replace(/^: paused$/, '.').replace(/^: paused: /, ': ')];
  }
}

/** Returns for when an alarm was set that a resume, a release or a kick made due later. */
function setFor(alarm) {
  return !alarm.repeat && Date.parse(alarm.next_try_time) > Date.parse(alarm.ring_at) ? [' It was set for ', when(alarm.ring_at), '.'] : '';
}

function actionList(view, alarm) {
  return [
    el('ul', {class: 'actions'}, actions.filter(action => !action.shown || action.shown(alarm)).map(action => {
      const refusal = action.refusal(alarm);
      const why = `why-${action.name}`;
      return el('li', {},
        el('button', {type: 'button', 'data-action': action.name, disabled: refusal !== '', 'aria-describedby': refusal ? why : null, click: () => run(view, alarm, action)}, action.verb),
        refusal ? el('span', {id: why, class: 'muted'}, `Not possible: ${refusal}.`)
          : el('span', {class: 'copies'}, el('span', {class: 'muted'}, 'Copy as'), copyButton('curl', curl(alarm, action)), copyButton('command', command(alarm, action))));
    })),
    el('p', {class: 'copies'}, el('span', {class: 'muted'}, 'Copy a read of this alarm as'), copyButton('curl', curl(alarm)), copyButton('command', command(alarm))),
  ];
}

async function run(view, alarm, action) {
  const confirmed = await confirm({
    title: `${action.verb} this alarm?`, asked: action.asked && action.asked(alarm), noted: true, verb: `${action.verb} the alarm`,
    body: [facts([['Application', alarm.application], ['Business id', alarm.business_id], ['State', badge(alarm.state)], ['Generation', String(alarm.generation)]]), el('p', {}, `The alarm ${action.effect}`)],
  });
  if (!confirmed) return;
  clear();
  try {
    const changed = await perform(action, alarm, confirmed, view.signal);
    notify('done', `The alarm is ${changed.state}.`);
  } catch (problem) {
    if (view.signal.aborted) return;
    notify('failed', `The alarm was not ${action.done}: ${reason(problem)}`);
  }
  view.reload();
}

function contentFacts(alarm) {
  const o = alarm.occurrence;
  return facts([
    ['To ring at', alarm.local_ring_at ? [`${alarm.local_ring_at} ${alarm.time_zone}`, ' = ', when(alarm.ring_at)] : when(alarm.ring_at)],
    ['Latest time to ring', when(alarm.latest_ring_at, 'none: it rings however late it is')],
    ['Rule', alarm.repeat && Object.entries(alarm.repeat).map(([name, value]) => `${name}: ${value}`).join(', ')],
    ['Occurrences', o && `number ${count(o.number)}: ${count(o.rung)} rung, ${count(o.missed)} missed, ${alarm.repeat.missed_window ? `${count(o.outside_window)} outside the missed window, ` : ''}${count(o.skipped)} skipped, ${count(o.failed)} failed`],
    ['Backfill', o && o.backfill && `${count(o.backfill.rung)} rung, ${count(o.backfill.failed)} failed, ${count(o.backfill.left)} left`],
    ['Lateness', o && o.rung > 0 ? `latest ${duration(o.lateness_ms / 1000)}, largest ${duration(o.lateness_max_ms / 1000)}` : null],
    ['Acknowledgement', alarm.ack_timeout ? `within ${alarm.ack_timeout}, at most ${plural(alarm.max_rings, 'ring')}` : 'not wanted'],
    ['Retries', `${alarm.retry.limit === null ? alarm.latest_ring_at ? 'until the latest time to ring' : 'without limit' : `at most ${alarm.retry.limit}`}, waits from ${alarm.retry.initial} to ${alarm.retry.cap}, factor ${alarm.retry.factor}`],
    ['Delivery', alarm.delivery.replaceAll('_', ' ')],
    ['Target', alarm.target || 'the target of the application'],
    ['Receiver', alarm.receiver && JSON.stringify(alarm.receiver)],
    ['Priority', String(alarm.priority)],
    ['Trace', alarm.traceparent],
  ]);
}

/** Returns a button in place of the payload. */
function hiddenPayload(alarm, json) {
  const place = el('div', {}, el('h3', {}, 'Payload'), el('p', {class: 'muted'}, 'The settings of the application hide payloads.'),
    el('button', {type: 'button', 'data-action': 'show-payload', click: () => replace(place, payloadOf(alarm, json))}, 'Show the payload'));
  return place;
}

/** Returns the payload. json is its text if it is JSON. */
function payloadOf(alarm, json) {
  const text = json === undefined ? alarm.text ?? alarm.base64 : layOut(json);
  if (text === undefined) return el('p', {class: 'muted'}, 'The payload is empty.');
  return [el('h3', {}, 'Payload ', el('span', {class: 'muted'}, alarm.content_type + ('base64' in alarm ? ', shown in base64' : ''))), el('pre', {tabindex: '0'}, text), copyButton('Copy the payload', json ?? text)];
}

function occurrenceTable(alarm, occurrences) {
  return [el('p', {}, `Rings ${occurrences.sentence}.`), table('Next occurrences', [
    {head: 'Number', cell: o => o.number === null ? '–' : count(o.number)}, {head: 'Occurrence', cell: o => when(o.at)},
    ...alarm.repeat.time_zone && alarm.repeat.time_zone !== zoneName() ? [{head: alarm.repeat.time_zone, cell: o => o.local.slice(0, 19).replace('T', ' ')}] : [],
    ...alarm.repeat.jitter ? [{head: 'Ring', cell: o => when(o.ring_at)}] : [],
  ], occurrences.occurrences), clockChange(alarm, occurrences.clock_change), el('p', {class: 'hint'}, `Time-zone data ${occurrences.time_zone_data}`)];
}

/** Returns what happens around the next change of the rule's clock. */
function clockChange(alarm, change) {
  if (!change) return null;
  const around = change.occurrences.map(o => o.local.replace('T', ' '));
  return el('p', {}, `The clock of ${alarm.repeat.time_zone} changes at `, when(change.at), around.length > 0 ? `. Around it the alarm rings at ${around.join(', ')}.` : '.');
}
