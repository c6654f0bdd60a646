// Starts the console: chooses the page of the URL, and owns what all pages share.

import {el, empty, pending, replace} from './dom.js';
import {Problem} from './api.js';
import {signedIn} from './caller.js';
import {currentState, href} from './url.js';
import {rememberZone, useZone, zoneName, zones} from './format.js';
import {clear, failure} from './notice.js';
import {learnCaller, signIn, startSignOut} from './signin.js';
import {isOpen, show as showDialog} from './dialog.js';
import {refreshDistances} from './parts.js';
import {togglePause} from './poll.js';
import * as alarm from './page-alarm.js';
import * as alarms from './page-alarms.js';
import * as application from './page-application.js';
import * as applications from './page-applications.js';
import * as audit from './page-audit.js';
import * as dead from './page-dead.js';
import * as forecast from './page-forecast.js';
import * as jobs from './page-jobs.js';
import * as nodes from './page-nodes.js';
import * as overview from './page-overview.js';
import * as repeating from './page-repeating.js';
import * as rings from './page-rings.js';
import * as search from './page-search.js';
import * as tokens from './page-tokens.js';

const unknown = {title: () => 'No such page', show: ({body}) => replace(body, empty('The console has no page of this name.', 'Choose a page above, or check the address.'))};

const pages = {overview, alarms, repeating, applications, dead, jobs, forecast, nodes, rings, audit, tokens, search, alarm, application, unknown};

// The pages in the navigation, each with its key after g.
const navigation = [
  {view: 'overview', name: 'Overview', key: 'o'},
  {view: 'alarms', name: 'Alarms', key: 'a'},
  {view: 'repeating', name: 'Repeating', key: 'r'},
  {view: 'applications', name: 'Applications', key: 'p'},
  {view: 'dead', name: 'Dead alarms', key: 'd'},
  {view: 'jobs', name: 'Jobs', key: 'j'},
  {view: 'forecast', name: 'Forecast', key: 'f'},
  {view: 'nodes', name: 'Nodes', key: 'n'},
  {view: 'rings', name: 'Live rings', key: 'l'},
  {view: 'audit', name: 'Audit', key: 'u'},
  {view: 'tokens', name: 'Tokens', key: 't'},
];

const main = document.getElementById('main');
let leaving = new AbortController(); // aborts when the person leaves the page

/** Shows the page of the current URL. */
async function show(focus) {
  leaving.abort();
  leaving = new AbortController();
  const query = new URLSearchParams(location.search);
  const asked = query.get('view') || 'overview';
  const view = Object.hasOwn(pages, asked) ? asked : 'unknown';
  const state = currentState();
  useZone(query.get('tz'));
  document.getElementById('zone').value = zoneName();
  document.getElementById('search-text').value = view === 'search' ? state.q || '' : '';
  for (const link of document.querySelectorAll('#pages a')) {
    if (link.dataset.view === view) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
    link.setAttribute('href', href(link.dataset.view));
  }
  const title = pages[view].title(state);
  document.title = `${title} · clockd`;
  const body = pending();
  const heading = el('h1', {tabindex: '-1'}, title);
  replace(main, heading, body);
  if (focus) heading.focus();
  const {signal} = leaving;
  const page = {state, body, heading, signal, go, reload: () => show(true), result: null}; // a page with a filter shows its list in result
  try {
    await pages[view].show(page);
  } catch (problem) {
    if (signal.aborted) return;
    if (!(problem instanceof Problem)) {
      replace(body, el('p', {class: 'empty', role: 'alert'}, `This page cannot be shown: ${problem.message}. Check its address.`));
      throw problem;
    }
    // Others who share the address may have used up its requests without a token. A token is still accepted then.
    const wantsToken = problem.status === 401 || problem.code === 'rate_limited' && !signedIn();
    if (wantsToken) replace(body, signIn(problem, () => show(true)));
    else replace(page.result || body, failure(problem, () => show(false)));
    if (wantsToken) document.getElementById('token').focus();
  }
}

/** Goes to a page. With replaced the current page leaves the history. */
function go(view, state, {replaced = false} = {}) {
  clear();
  const url = href(view, state);
  if (replaced) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  scrollTo(0, 0);
  show(true);
}

function followLink(event) {
  const link = event.target.closest('a[href^="?"]');
  if (!link || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  clear();
  history.pushState(null, '', link.getAttribute('href'));
  scrollTo(0, 0);
  show(true);
}

function startNavigation() {
  replace(document.getElementById('pages'), el('ul', {}, navigation.map(p => el('li', {}, el('a', {href: href(p.view), 'data-view': p.view}, p.name)))));
  document.addEventListener('click', followLink);
  addEventListener('popstate', () => { clear(); show(false); });
}

function startSearch() {
  document.getElementById('search').addEventListener('submit', event => {
    event.preventDefault();
    const q = document.getElementById('search-text').value.trim();
    if (q) go('search', {q});
  });
}

function startZone() {
  const select = document.getElementById('zone');
  const [utc, local, ...others] = zones();
  replace(select, el('option', {value: utc}, utc), local && el('option', {value: local}, `${local} (this machine)`),
    el('optgroup', {label: 'All time zones'}, others.map(z => el('option', {value: z}, z))));
  select.addEventListener('change', () => {
    rememberZone(select.value);
    const query = new URLSearchParams(location.search);
    query.set('tz', select.value);
    history.replaceState(null, '', `?${query}`);
    show(false);
  });
}

function startTheme() {
  const select = document.getElementById('theme');
  select.value = document.documentElement.dataset.theme || '';
  select.addEventListener('change', () => {
    if (select.value) document.documentElement.dataset.theme = select.value;
    else delete document.documentElement.dataset.theme;
    try { localStorage.setItem('clockd.theme', select.value); } catch { /* storage is off */ }
  });
}

let afterG = false; // the last key was g

const keysOff = () => { try { return localStorage.getItem('clockd.keys') === 'off'; } catch { return false; } };

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isOpen() || keysOff()) return;
  if (event.target.matches('input, select, textarea')) return;
  const page = afterG && navigation.find(p => p.key === event.key);
  afterG = event.key === 'g' && !afterG;
  if (page) go(page.view);
  else if (event.key === '/') document.getElementById('search-text').focus();
  else if (event.key === '?') showKeys();
  else if (event.key === 'r') show(false);
  else if (event.key === 'p') togglePause();
  else return;
  event.preventDefault();
}

function showKeys() {
  const keys = [['/', 'search'], ['r', 'read the page again'], ['p', 'pause the updates'], ...navigation.map(p => [`g ${p.key}`, p.name]), ['?', 'this list']];
  const box = el('input', {type: 'checkbox', id: 'keys-on', checked: !keysOff(), change: () => {
    try { localStorage.setItem('clockd.keys', box.checked ? 'on' : 'off'); } catch { /* storage is off */ }
  }});
  showDialog('Keys', el('dl', {class: 'keys'}, keys.map(([key, what]) => [el('dt', {}, key.split(' ').map(k => el('kbd', {}, k))), el('dd', {}, what)])),
    el('p', {}, box, ' ', el('label', {for: 'keys-on'}, 'Use keys')));
}

startNavigation();
startSearch();
startZone();
startTheme();
startSignOut(() => show(true));
document.addEventListener('keydown', pressed);
setInterval(() => { if (!document.hidden) refreshDistances(); }, 1000);
document.getElementById('pause').addEventListener('click', togglePause);
document.getElementById('keys').addEventListener('click', showKeys);
await learnCaller();
show(false);
