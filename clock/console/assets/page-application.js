// One application: its settings, their editor and their versions.

import {address, get, getWithText} from './api.js';
import {copyButton, facts, when} from './parts.js';
import {el, empty, replace, section, table} from './dom.js';
import {health, lastSeen, stateCount} from './health.js';
import {href} from './url.js';
import {curlOf, quoted} from './actions.js';
import {knownApplications, unknownApplication} from './known.js';
import {memberText} from './rawjson.js';
import {settingsEditor} from './settings.js';

const states = ['scheduled', 'ringing', 'paused', 'dead', 'expired'];

export function title(state) { return `Application ${state.application || ''}`; }

export async function show(view) {
  const name = view.state.application || '';
  const path = `v1/applications/${encodeURIComponent(name)}/settings`;
  const [{body: settings, text}, history, page] = await Promise.all([
    getWithText(path, view.signal), get(`${path}/history`, {limit: 20}, view.signal), get('v1/applications', {application: name, counts: true}, view.signal),
  ]);
  const [application] = page.applications;
  const unknown = application ? '' : unknownApplication(name, await knownApplications(view.signal)) || 'No alarm and no setting of this application is known.';
  replace(view.body,
    unknown && empty(unknown, 'It has the default settings. The first alarm that is set makes it known, and so does a change of its settings.'),
    el('p', {class: 'links'}, el('a', {href: href('alarms', {application: name})}, 'Alarms'), el('a', {href: href('dead', {application: name})}, 'Dead alarms by cause'), el('a', {href: href('overview', {application: name})}, 'Rates and lateness'), el('a', {href: href('forecast', {application: name})}, 'Forecast'), el('a', {href: href('rings', {application: name})}, 'Live rings'), el('a', {href: href('jobs', {application: name})}, 'Bulk jobs'), el('a', {href: href('audit', {application: name})}, 'Audit')),
    el('div', {class: 'columns'}, el('div', {}, application && section('Health', figures(application, page)), section('Settings', effective(settings))),
      section('Change', settings.settings && settingsEditor(view, path, settings, memberText(text, 'settings')), commands(name, settings))),
    section('Versions', versions(history.versions)));
}

/** Returns how the application fares, and its alarms by state. */
function figures(application, page) {
  return [
    facts([['Now', health(application, page)], ['Last seen', lastSeen(application)], ...states.map(state => [state[0].toUpperCase() + state.slice(1), stateCount(application, state)])]),
    !application.counts.complete && el('p', {class: 'hint'}, 'Counted among the first 1,000 alarms; paused, dead and expired ones up to 1,000. ≥ stands before a count that is not complete.'),
  ];
}

function effective(s) {
  if (!s.effective) return el('p', {class: 'bad'}, `The settings cannot be read: ${s.unreadable}. The alarms wait.`);
  const e = s.effective;
  const places = Object.fromEntries(['amqp', 'webhook', 'kafka', 'grpc', 'destinations'].filter(name => e[name]).map(name => [name, e[name]]));
  return [facts([
    ['State', e.paused ? el('span', {class: 'warn'}, 'paused: its alarms wait') : 'rings'],
    ['Target', `${e.target}${s.applied_target === e.target ? '' : `; this node rings to ${s.applied_target || 'nothing'}`}`],
    ['Targets of single alarms', e.alarm_targets.join(', ')],
    ['Retries', `${e.retry.limit === null ? 'no limit' : `at most ${e.retry.limit}`}, waits from ${e.retry.initial} to ${e.retry.cap}, factor ${e.retry.factor}`],
    ['Acknowledgement', e.ack_timeout ? `within ${e.ack_timeout}` : 'not wanted'],
    ['Most rings', String(e.max_rings)],
    ['Payloads', e.hide_payload ? 'shown here on request alone' : 'shown'],
    ['Version', s.version === s.applied_version ? String(s.version) : `${s.version}; this node still applies ${s.applied_version}`],
  ]), Object.keys(places).length > 0 && el('pre', {tabindex: '0'}, JSON.stringify(places, null, 2))];
}

function commands(name, settings) {
  const paused = settings.effective?.paused;
  const rows = [
    [paused ? 'Ring the alarms again' : 'Hold all alarms, for example during an outage', `clockd application ${paused ? 'resume' : 'pause'} ${quoted(name)}`],
    ['Show the settings', `clockd application get ${quoted(name)}`],
    ['Read the settings over HTTP', curlOf(quoted(address(`v1/applications/${name}/settings`).href))],
  ];
  return [el('h3', {}, 'From the shell'), el('p', {class: 'hint'}, 'On the machine of the service the commands work on its database. From elsewhere, name the server (--server) and a token of an admin.'),
    el('ul', {class: 'commands'}, rows.map(([what, text]) => el('li', {}, el('span', {}, what), el('code', {}, text), copyButton('Copy', text))))];
}

function versions(all) {
  if (all.length === 0) return el('p', {class: 'muted'}, 'The application has never had settings of its own. It has the defaults.');
  return table('Versions of the settings', [
    {head: 'Version', cell: v => String(v.version)}, {head: 'Changed', cell: v => when(v.changed_at)}, {head: 'By', cell: v => v.changed_by || '–'},
    {head: 'Settings', cell: v => el('code', {}, v.settings ? JSON.stringify(v.settings) : v.unreadable || '{}')},
  ], all);
}
