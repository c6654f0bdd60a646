// Opens the console in Chromium, visits every page and carries out every action against a clockd on SQLite. It fails at a violation of the content
// security policy, at an error in the browser's log, and at a violation of accessibility that axe finds.
//
// check.mjs [FOLDER]: with a folder, it keeps screenshots of all pages there, in light and dark. CROWD is the number of alarms in one more application
// (1500).

import {createServer, request as forward} from 'node:http';
import {execFileSync, execSync} from 'node:child_process';
import {mkdir, readFile} from 'node:fs/promises';
import assert from 'node:assert/strict';
import path from 'node:path';
import {chromium} from 'playwright-core';
import {startIssuer} from './issuer.mjs';
import {alarm, fill, hostileID, listen, program, seed, startService, until} from './service.mjs';

const screenshots = process.argv[2];
const crowd = Number(process.env.CROWD || 1500); // alarms of one more application
const axe = await readFile(path.join(import.meta.dirname, 'node_modules/axe-core/axe.min.js'), 'utf8');
const allRules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const prefix = '/tools/clock';

/** Serves the service below a prefix, as a proxy does. */
async function startProxy(target) {
  const proxy = createServer((incoming, outgoing) => {
    if (!incoming.url.startsWith(`${prefix}/`)) { outgoing.writeHead(404).end(); return; }
    const {host, ...headers} = incoming.headers;
    const passed = forward(target + incoming.url.slice(prefix.length), {method: incoming.method, headers}, response => {
      outgoing.writeHead(response.statusCode, response.headers);
      response.pipe(outgoing);
    });
    incoming.pipe(passed);
  });
  await new Promise(done => proxy.listen(0, '127.0.0.1', done));
  return {url: `http://127.0.0.1:${proxy.address().port}${prefix}`, stop: () => proxy.close()};
}

/** Opens a tab whose faults end up in the list. */
async function openTab(browser, faults, options = {}) {
  const context = await browser.newContext({viewport: {width: 1360, height: 900}, timezoneId: 'Europe/Berlin', permissions: ['clipboard-read', 'clipboard-write'], ...options});
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on('pageerror', error => faults.push(`error: ${error.stack}`));
  page.on('console', message => {
    const expected = /the server responded with a status of|net::ERR_FAILED/i; // failures of requests that a check asks for
    if (message.type() === 'error' && !expected.test(message.text())) faults.push(`log: ${message.text()}`);
  });
  page.on('dialog', dialog => { faults.push(`alert: ${dialog.message()}`); dialog.dismiss(); });
  await page.exposeFunction('noteViolation', text => faults.push(`policy: ${text}`));
  await page.addInitScript(() => addEventListener('securitypolicyviolation', e => globalThis.noteViolation(`${e.violatedDirective} ${e.blockedURI}`)));
  return page;
}

/** Fails at the faults that axe finds. */
async function checkAccessibility(page, where, rules) {
  await page.evaluate(axe);
  const violations = await page.evaluate(async runOnly => (await globalThis.axe.run(document, {runOnly})).violations
    .map(v => `${v.id}: ${v.help}: ${v.nodes.map(n => n.html + n.failureSummary).slice(0, 3).join(' | ')}`), rules);
  assert.deepEqual(violations, [], where);
}

/** Opens a page of the console and waits until it is drawn. */
async function visit(page, base, query) {
  await page.goto(`${base}/ui/${query}`);
  await page.waitForSelector('main h1');
  await page.waitForFunction(() => !document.querySelector('.loading'));
}

/** Lets so many seconds pass on a page with a clock of its own. At the end the page's requests of that time have been sent. */
async function pass(page, seconds) {
  await page.clock.runFor(1000 * seconds);
  await page.evaluate(() => fetch('../healthz'));
}

/** Presses a button with a confirmation, and confirms. Returns the text of the confirmation. */
async function confirmed(page, button, note = '') {
  await page.locator(button).first().click();
  await page.waitForSelector('dialog[open] button.primary'); // the server may count first
  if (note) {
    await page.locator('dialog #note').fill(note);
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'confirmation.png')});
  }
  const text = await page.locator('dialog').innerText();
  const typed = page.locator('dialog #typed');
  if (await typed.count()) await typed.fill(await page.locator('dialog label strong').innerText());
  await page.locator('dialog button.primary').click();
  return text;
}

/** Presses Tab until the element has the focus, as a person with a keyboard alone does. */
async function tabTo(page, selector) {
  for (let i = 0; i < 400; i++) {
    if (await page.evaluate(s => document.activeElement.matches(s), selector)) return;
    await page.keyboard.press('Tab');
  }
  assert.fail(`Tab does not come to ${selector}`);
}

const view = (name, state = {}) => `?${new URLSearchParams({view: name, ...state})}`;
const alarmView = (application, id) => view('alarm', {application, id});

const pages = {
  overview: view('overview'), repeating: view('repeating'), 'repeating-none': view('repeating', {application: 'bank'}), alarms: view('alarms', {application: 'shop'}), 'alarms-none': view('alarms', {application: 'shop', prefix: 'nothing'}), applications: view('applications'),
  application: view('application', {application: 'shop'}), dead: view('dead'), 'dead-causes': view('dead', {application: 'shop'}), nodes: view('nodes'), rings: view('rings'), 'jobs-none': view('jobs', {application: 'bank'}), audit: view('audit'), tokens: view('tokens'), forecast: view('forecast', {by: 'hour'}), 'search-none': view('search', {q: 'nothing'}),
  search: view('search', {q: 'order-4711'}), 'alarm-scheduled': alarmView('shop', 'order-4711'), 'alarm-cancelled': alarmView('shop', 'order-4712'), 'alarm-paused': alarmView('shop', 'order-4713'),
  'alarm-rung': alarmView('shop', 'order-4714'), 'alarm-ringing': alarmView('shop', 'order-4715'), 'alarm-acknowledged': alarmView('shop', 'order-4716'), 'alarm-released': alarmView('shop', 'order-4717'),
  'alarm-dead': alarmView('shop', 'order-4718'), 'alarm-hostile': alarmView('shop', hostileID), 'alarm-repeating': alarmView('shop', 'report-nightly'), 'alarm-expired': alarmView('bank', 'transfer-1'),
  'alarm-overdue': alarmView('bank', 'transfer-2'), 'alarm-unknown': alarmView('shop', 'unknown'), 'page-none': view('nothing'),
};

const checks = {
  async 'every page is accessible in light and dark'({browser, faults, service}) {
    for (const [colorScheme, rules] of [['light', allRules], ['dark', ['color-contrast']]]) {
      const page = await openTab(browser, faults, {colorScheme});
      for (const [name, query] of Object.entries(pages)) {
        await visit(page, service.url, query);
        if (name.startsWith('alarm-') && name !== 'alarm-unknown') await page.waitForSelector('.timeline');
        if (screenshots) await page.screenshot({path: path.join(screenshots, `${name}-${colorScheme}.png`), fullPage: true});
        await checkAccessibility(page, `${name}, ${colorScheme}`, rules);
      }
      await page.context().close();
    }
  },

  async 'a narrow screen shows every page without a horizontal bar'({browser, faults, service}) {
    const page = await openTab(browser, faults, {viewport: {width: 380, height: 800}});
    for (const [name, query] of Object.entries(pages)) {
      await visit(page, service.url, query);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(beyond <= 0, `${name} is ${beyond} pixels too wide`);
      if (screenshots && ['overview', 'alarm-released'].includes(name)) await page.screenshot({path: path.join(screenshots, `${name}-narrow.png`), fullPage: true});
    }
    await page.context().close();
  },

  async 'search by keyboard finds an alarm in all applications'({page, service}) {
    await visit(page, service.url, '');
    await page.keyboard.press('/');
    await page.keyboard.type('order-4711');
    await page.keyboard.press('Enter');
    await page.waitForSelector('tbody tr');
    assert.deepEqual(await page.locator('tbody tr td:nth-child(2)').allInnerTexts(), ['bank', 'shop']);
    await page.locator('tbody a.id', {hasText: 'order-4711'}).first().click();
    await page.waitForSelector('.timeline');
    assert.equal(new URL(page.url()).searchParams.get('application'), 'bank');
    await page.goBack();
    await page.waitForSelector('tbody tr');
    await page.fill('#search-text', 'report-nightly');
    await page.press('#search-text', 'Enter');
    await page.waitForSelector('.timeline');
    assert.match(await page.innerText('main'), /Next occurrences/);
  },

  async 'keys move between pages, and can be turned off'({page, service}) {
    await visit(page, service.url, '');
    for (const [keys, heading] of [['ga', 'Alarms'], ['gr', 'Repeating alarms'], ['gn', 'Nodes and shards'], ['gl', 'Live rings'], ['gd', 'Dead alarms'], ['gp', 'Applications'], ['gj', 'Bulk jobs'], ['gf', 'Forecast'], ['gu', 'Audit'], ['gt', 'Tokens and sessions'], ['go', 'Overview']]) {
      for (const key of keys) await page.keyboard.press(key);
      await page.waitForFunction(text => document.querySelector('h1').textContent === text, heading);
      assert.equal(await page.evaluate(() => document.activeElement.tagName), 'H1');
    }
    await page.keyboard.press('?');
    assert.match(await page.innerText('dialog'), /search[\s\S]*Dead alarms/);
    await page.uncheck('#keys-on');
    await page.keyboard.press('Escape');
    await page.keyboard.press('g');
    await page.keyboard.press('a');
    assert.equal(await page.innerText('h1'), 'Overview');
    await page.click('#keys');
    await page.check('#keys-on');
    await page.keyboard.press('Escape');
  },

  async 'a list by due time says which alarms it leaves out'({page, service}) {
    const due = {application: 'shop', after: '2020-01-01T00:00:00Z'};
    await visit(page, service.url, view('alarms', due));
    assert.match(await page.innerText('main'), /By the next ring of each alarm. Only scheduled and ringing alarms are due at a time/);
    await visit(page, service.url, view('alarms', {...due, state: 'cancelled,paused'}));
    assert.match(await page.innerText('main'), /No alarm matches the filter[\s\S]*Clear the due time/);
  },

  async 'a bulk pause of a due range can be undone as such'({page, service}) {
    const at = hours => new Date(Date.now() + hours * 3600000).toISOString();
    for (const [id, hours] of [['a', 1], ['b', 1], ['c', 5], ['d', 5]]) await service.call('PUT', alarm('undo', id), {ring_at: at(hours)});
    await service.call('POST', `${alarm('undo', 'd')}/pause`); // by hand, before
    await service.call('POST', '/v1/applications/undo/alarms', {set: Array.from({length: 1000}, (_, n) => ({business_id: `0-${n}`, ring_at: at(9)}))});
    const {body: early} = await service.call('POST', '/v1/bulk', {application: 'undo', action: 'pause', prefix: '0-', dry_run: true});
    const {body: job} = await service.call('POST', '/v1/bulk', {application: 'undo', action: 'pause', prefix: '0-', frozen_at: early.frozen_at});
    await until('the other alarms are paused', async () => (await service.call('GET', `/v1/bulk/${job.id}`)).body.status === 'done');
    await visit(page, service.url, view('alarms', {application: 'undo', after: at(0), before: at(2)}));
    await page.click('main summary');
    assert.match(await confirmed(page, '[data-bulk=pause]'), /Pause 2 alarms/);
    await page.waitForSelector('.badge.rung'); // the job is done
    await page.click('text=Alarms that are paused now');
    await page.waitForSelector('main .empty'); // the server has looked at others
    assert.match(await page.innerText('main'), /By the time at which each alarm was to ring[\s\S]*Go on with the next page/);
    await page.click('a:text-is("Next page")');
    await page.waitForSelector('tbody tr');
    assert.deepEqual(await page.locator('tbody a.id').allInnerTexts(), ['a', 'b']);
    await page.goBack();
    await page.waitForSelector('main .empty');
    await page.click('main summary');
    assert.match(await confirmed(page, '[data-bulk=resume]'), /Resume 2 alarms/);
    await page.waitForSelector('.badge.rung');
    const states = await Promise.all(['a', 'b', 'c', 'd'].map(async id => (await service.call('GET', alarm('undo', id))).body.state));
    assert.deepEqual(states, ['scheduled', 'scheduled', 'scheduled', 'paused']);
  },

  async 'applications say when they were last seen, and which tries failed'({page, service}) {
    await service.call('PUT', alarm('seen', 'order-1'), {delay: '1h'});
    await until('the application is seen', async () => (await service.call('GET', '/v1/applications?application=seen')).body.applications[0].last_seen);
    await visit(page, service.url, view('application', {application: 'seen'}));
    assert.match(await page.innerText('main'), /Last seen\n.*ago/);
    await visit(page, service.url, view('applications'));
    assert.match(await page.innerText('thead'), /Last seen[\s\S]*Failed/i);
  },

  async 'the overview of an application leaves out the others'({page, service}) {
    await visit(page, service.url, view('overview', {application: 'card'}));
    assert.match(await page.innerText('main'), /No alarm is dead or expired/);
    await visit(page, service.url, view('overview', {application: 'shop'}));
    assert.match(await page.innerText('main'), /No application has an overdue alarm[\s\S]*shop: 15 alarms/);
    assert.doesNotMatch(await page.innerText('main'), /bank: /);

    const many = await startService();
    try {
      await many.call('PUT', alarm('zoo', 'order-1'), {ring_at: '1970-01-01T00:00:00Z', latest_ring_at: Date.now() + 500});
      for (let i = 0; i < 105; i++) {
        await many.call('PUT', alarm(`a-${i}`, 'order-1'), {delay: '1h'});
        await many.call('POST', `${alarm(`a-${i}`, 'order-1')}/pause`);
      }
      await until('the alarm of zoo expires', async () => (await many.call('GET', alarm('zoo', 'order-1'))).body.state === 'expired');
      await visit(page, many.url, view('overview', {application: 'zoo'}));
      assert.match(await page.innerText('main'), /Dead or expired\n1 alarm\n[\s\S]*zoo: 1 alarm/);
    } finally {
      await many.stop();
    }
  },

  async 'an unknown page says so'({page, service}) {
    await visit(page, service.url, view('nothing'));
    assert.match(await page.innerText('main'), /No such page\n+The console has no page of this name/);
  },

  async 'each action on an alarm asks first and then happens'({page, service}) {
    const state = async id => (await service.call('GET', alarm('shop', id))).body.state;
    await visit(page, service.url, alarmView('shop', 'order-4711'));
    await page.click('[data-action=cancel]');
    await page.locator('dialog button', {hasText: 'Go back'}).click();
    assert.equal(await state('order-4711'), 'scheduled');
    for (const [id, action, after] of [
      ['order-4711', 'pause', 'paused'], ['order-4711', 'resume', 'scheduled'], ['order-4711', 'trigger', 'scheduled'], ['order-4711', 'cancel', 'cancelled'], ['order-4718', 'kick', 'scheduled'], ['card-00', 'discard', 'cancelled'],
    ]) {
      await visit(page, service.url, alarmView('shop', id));
      const text = await confirmed(page, `[data-action=${action}]`);
      assert.match(text, new RegExp(id));
      await page.waitForSelector('.notice.done');
      assert.equal(await state(id), after);
      await page.waitForSelector(`.summary .badge.${after}`);
    }
  },

  async 'the life of an alarm has the acts of people'({page, service}) {
    await service.call('PUT', alarm('shop', 'acted'), {delay: '1h'});
    await visit(page, service.url, alarmView('shop', 'acted'));
    for (const [action, note, after] of [['pause', 'no <i>stock</i>', 'paused'], ['resume', 'found it', 'scheduled'], ['cancel', 'the customer called', 'cancelled']]) {
      await confirmed(page, `[data-action=${action}]`, note);
      await page.waitForSelector(`.summary .badge.${after}`);
    }
    assert.match(await page.innerText('.timeline'), /Set\n[\s\S]*\nPaused by 127\.0\.0\.1\n[\s\S]*no <i>stock<\/i>[\s\S]*\nResumed by 127\.0\.0\.1\n[\s\S]*found it[\s\S]*\nCancelled by 127\.0\.0\.1\n[\s\S]*the customer called/);
    assert.equal((await page.innerText('.timeline')).match(/Cancelled|Paused/g).length, 2);
    await service.call('PUT', alarm('shop', 'acted'), {delay: '2h'});
    await visit(page, service.url, alarmView('shop', 'acted'));
    assert.match(await page.innerText('.timeline'), /Set\n[^\n]*\nfor [^·\n]*\n[\s\S]*\nCancelled by 127\.0\.0\.1\n[\s\S]*\nSet again\n[^\n]*\nfor .* generation 2/);
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'life.png'), fullPage: true});
    await visit(page, service.url, view('audit', {application: 'shop'}));
    assert.match(await page.innerText('tbody tr:first-child'), /cancel[\s\S]*acted[\s\S]*the customer called/);
  },

  async 'a person with a keyboard alone finds, changes and lists alarms'({browser, faults, service}) {
    const page = await openTab(browser, faults);
    const keys = async (...all) => { for (const key of all) await page.keyboard.press(key); };
    const act = async (button, note) => { // as a person who knows no other key than Tab and Enter
      await tabTo(page, button);
      await keys('Enter');
      await page.waitForSelector('dialog[open] #note');
      await tabTo(page, '#note');
      await page.keyboard.type(note);
      await keys('Enter');
      await page.waitForSelector('.notice.done');
    };
    await visit(page, service.url, '');
    await keys('/');
    await page.keyboard.type('crowd-000007');
    await keys('Enter');
    await page.waitForSelector('.timeline');
    for (const [action, after] of [['pause', 'paused'], ['resume', 'scheduled'], ['cancel', 'cancelled']]) {
      await act(`[data-action=${action}]`, `${action} by keyboard`);
      await page.waitForSelector(`.summary .badge.${after}`);
    }
    await keys('g', 'a');
    await page.waitForSelector('#application');
    await tabTo(page, '#application');
    await page.keyboard.type('crowd');
    await tabTo(page, 'input[value=scheduled]');
    await keys('Space');
    await tabTo(page, '.filter button[type=submit]');
    await keys('Enter');
    await page.waitForSelector('tbody tr');
    await tabTo(page, 'tbody tr:nth-child(2) input');
    await keys('Space');
    await tabTo(page, '.selection [data-action=pause]');
    await keys('Enter');
    await page.waitForSelector('dialog[open] button.primary');
    await tabTo(page, 'dialog button.primary');
    await keys('Enter');
    await page.waitForSelector('.notice.done');
    await tabTo(page, 'summary');
    await keys('Enter');
    await tabTo(page, '[data-bulk=shift]');
    await keys('Enter');
    await page.waitForSelector('dialog[open] #asked-shift');
    await tabTo(page, '#asked-shift');
    await keys('Control+a');
    await page.keyboard.type('2h');
    await keys('Enter');
    await page.waitForSelector('dialog[open] #typed', {timeout: 60_000});
    await tabTo(page, '#typed');
    await page.keyboard.type('crowd');
    await keys('Enter');
    await page.waitForSelector('.summary .badge.rung', {timeout: 600_000});
    const moved = (crowd - 2).toLocaleString('en'); // one is cancelled, and one is paused
    assert.match(await page.innerText('.summary'), new RegExp(`\\b${moved} alarms shifted`)); // a count of a million ends early
    await page.context().close();
  },

  async 'a backfill takes a range in the time zone of the page'({page, service}) {
    await service.call('PUT', alarm('shop', 'hourly'), {repeat: {cron: '0 * * * *', time_zone: 'Europe/Berlin'}});
    const backfill = async () => (await service.call('GET', alarm('shop', 'hourly'))).body.occurrence.backfill;
    await visit(page, service.url, `${alarmView('shop', 'hourly')}&tz=America/New_York`);
    assert.match(await page.innerText('[aria-label="Next occurrences"]'), /Europe\/Berlin[\s\S]*:00:00/);
    assert.match(await page.innerText('main'), /Rings [^.]*, Europe\/Berlin\./);
    await page.click('[data-action=backfill]');
    await page.fill('#asked-from', '2026-01-05T08:00:00');
    await page.fill('#asked-until', '2026-01-05T10:59:59');
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'backfill.png')});
    await page.click('dialog button.primary');
    await page.waitForSelector('.notice.done');
    assert.deepEqual(await backfill(), {left: 3, rung: 0, failed: 0, at: '2026-01-05T13:00:00.000Z', due_at: (await backfill()).due_at});
    await page.waitForFunction(() => /0 rung, 0 failed, 3 left/.test(document.body.innerText));
    await confirmed(page, '[data-action=end-backfill]');
    await page.waitForFunction(() => !document.querySelector('[data-action=end-backfill]'));
    assert.equal(await backfill(), null);
  },

  async 'an alarm that has changed meanwhile stays as it is'({page, service}) {
    await service.call('PUT', alarm('shop', 'moved'), {delay: '1h'});
    await visit(page, service.url, alarmView('shop', 'moved'));
    await page.click('[data-action=cancel]');
    await service.call('PUT', alarm('shop', 'moved'), {delay: '2h'});
    await page.click('dialog button.primary');
    await page.waitForSelector('.notice.failed');
    assert.match(await page.innerText('.notice.failed'), /generation[\s\S]*changed since you read it/);
    assert.equal((await service.call('GET', alarm('shop', 'moved'))).body.state, 'scheduled');
    assert.match(await page.innerText('.summary'), /generation 2/);
  },

  async 'the reasons against actions are those of the server'({page, service}) {
    let refused = 0;
    for (const id of ['order-4712', 'order-4713', 'order-4714', 'order-4715', 'order-4716', 'card-01', 'hold-0001', 'report-nightly']) {
      await visit(page, service.url, alarmView('shop', id));
      await page.waitForSelector('.actions button');
      for (const button of await page.locator('.actions button[data-action]').all()) {
        const action = await button.getAttribute('data-action');
        if (!await button.isDisabled()) continue;
        assert.match(await page.innerText(`#why-${action}`), /^Not possible: ./);
        const {status, body} = action === 'cancel' ? await service.call('DELETE', alarm('shop', id)) : await service.call('POST', `${alarm('shop', id)}/${action}`);
        // an action whose effect the alarm already has changes nothing, and the server accepts it
        const same = status === 200 && (body.state === {cancel: 'cancelled', discard: 'cancelled', pause: 'paused'}[action] || action === 'resume' && body.state !== 'paused');
        assert.ok(status === 409 || same, `${action} of ${id} is not offered, but the server responds ${status}`);
        refused++;
      }
    }
    assert.ok(refused > 15, `only ${refused} actions were refused`);
  },

  async 'a copied command does what the button does'({page, service}) {
    await service.call('PUT', alarm('shop', hostileID), {delay: '3h'});
    await visit(page, service.url, alarmView('shop', hostileID));
    const copied = async (row, label) => {
      await page.locator(row).getByRole('button', {name: label, exact: true}).click();
      return page.evaluate(() => navigator.clipboard.readText());
    };
    execSync(await copied('.actions li:has([data-action=pause])', 'curl'), {stdio: 'pipe'});
    assert.equal((await service.call('GET', alarm('shop', hostileID))).body.state, 'paused');
    await visit(page, service.url, alarmView('shop', hostileID));
    execSync((await copied('.actions li:has([data-action=resume])', 'command')).replace(/^clockd/, program), {stdio: 'pipe'});
    assert.equal((await service.call('GET', alarm('shop', hostileID))).body.state, 'scheduled');
  },

  async 'a payload is shown as it was given'({page, service}) {
    const payload = '{"id":12345678901234567890,"id":[1.50,{}],"text":"a \\"b\\", {c}: [d]"}';
    await fetch(service.url + alarm('shop', 'exact'), {method: 'PUT', body: `{"delay":"1h","payload":${payload}}`});
    await visit(page, service.url, alarmView('shop', 'exact'));
    assert.equal(await page.innerText('pre'), '{\n  "id": 12345678901234567890,\n  "id": [\n    1.50,\n    {}\n  ],\n  "text": "a \\"b\\", {c}: [d]"\n}');
    await page.getByRole('button', {name: 'Copy the payload'}).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), payload);
  },

  async 'a list has pages, and its filter is in the URL'({page, service}) {
    await visit(page, service.url, view('alarms'));
    await page.fill('#application', 'shop');
    await page.fill('#prefix', 'hold-');
    await page.check('input[value=scheduled]');
    await page.locator('form button.primary').click();
    await page.waitForSelector('tbody tr');
    assert.equal(await page.locator('tbody tr').count(), 100);
    for (const rows of [100, 30]) {
      await page.click('.pager a:last-child');
      await page.waitForFunction(n => document.querySelectorAll('tbody tr').length === n, rows);
    }
    const query = new URL(page.url()).searchParams;
    assert.deepEqual([query.get('prefix'), query.get('state')], ['hold-', 'scheduled']);
    await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 100);
    await page.reload();
    await page.waitForSelector('tbody tr');
    assert.equal(await page.inputValue('#prefix'), 'hold-');
  },

  async 'selected alarms are changed after a confirmation with their number'({page, service}) {
    await visit(page, service.url, view('alarms', {application: 'shop', prefix: 'hold-000'}));
    for (const id of ['hold-0003', 'hold-0004', 'hold-0005']) await page.getByLabel(`Select ${id}`).check();
    const text = await confirmed(page, '.selection [data-action=cancel]');
    assert.match(text, /Cancel 3 alarms\?[\s\S]*hold-0003, hold-0004, hold-0005/);
    await page.waitForSelector('.notice.done');
    await page.waitForFunction(() => document.querySelectorAll('tbody .badge.cancelled').length === 3);
    await page.getByLabel('Select all alarms on this page').check();
    assert.deepEqual(await page.locator('.selection button:enabled').allInnerTexts(), ['Cancel 7', 'Pause 7', 'Trigger 7']);
  },

  async 'repeating alarms of all applications are listed, filtered and changed'({page, service}) {
    for (const [application, id, cron] of [['bank', 'standing-order', '0 6 1 * *'], ['cron', 'a/b ü', '*/10 * * * *'], ['cron', 'ended', '@daily'], ['cron', 'weekly', '0 8 * * mon']]) {
      await service.call('PUT', alarm(application, id), {repeat: {cron, time_zone: 'Europe/Berlin'}});
    }
    await service.call('DELETE', alarm('cron', 'ended'));
    const ids = () => page.locator('tbody td:nth-child(2)').allInnerTexts();
    await visit(page, service.url, view('repeating'));
    await page.waitForSelector('tbody tr');
    const all = await ids();
    for (const id of ['standing-order', 'a/b ü', 'ended', 'weekly', 'report-nightly']) assert.ok(all.includes(id), `${id} is not among ${all}`);
    assert.match(await page.innerText('tbody tr:has-text("weekly")'), /cron\s+scheduled\s+at 08:00 on Monday, Europe\/Berlin[\s\S]*then [\s\S]*\s0\s/);
    for (const id of ['standing-order', 'weekly']) await page.getByLabel(`Select ${id}`).check();
    await page.click('.selection [data-action=trigger]');
    assert.match(await page.innerText('dialog'), /Applications\s+bank, cron[\s\S]*bank\/standing-order, cron\/weekly/);
    await page.locator('dialog button', {hasText: 'Go back'}).click();
    await page.fill('#application', 'cron');
    await page.selectOption('#state', {label: 'scheduled or ringing'});
    await page.locator('main form button.primary').click();
    await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 2);
    assert.deepEqual(await ids(), ['a/b ü', 'weekly']);
    await page.getByRole('button', {name: 'command', exact: true}).click();
    const command = (await page.evaluate(() => navigator.clipboard.readText())).replace(/^clockd/, program);
    const printed = execSync(command, {encoding: 'utf8'});
    assert.match(printed, /cron +a\/b ü +scheduled[\s\S]*cron +weekly/);
    assert.ok(!printed.includes('ended'));
    await page.getByRole('button', {name: 'curl', exact: true}).click();
    assert.equal(JSON.parse(execSync(await page.evaluate(() => navigator.clipboard.readText()), {encoding: 'utf8', stdio: 'pipe'})).alarms.length, 2);
    await page.getByLabel('Select a/b ü').check();
    assert.match(await confirmed(page, '.selection [data-action=pause]'), /a\/b ü/);
    await page.waitForSelector('.notice.done');
    await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1);
    await page.selectOption('#state', {label: 'paused'});
    await page.locator('main form button.primary').click();
    await page.waitForFunction(() => document.querySelector('tbody .badge.paused'));
    assert.deepEqual(await ids(), ['a/b ü']);
    await page.locator('tbody a.id', {hasText: 'a/b ü'}).click();
    await page.waitForSelector('.timeline');
    assert.match(await page.innerText('main'), /The clock of Europe\/Berlin changes at 20\d\d-\d\d-\d\d 01:00:00 /);
    await visit(page, service.url, view('repeating', {application: 'crn'}));
    assert.match(await page.innerText('main'), /No alarm and no setting of an application crn is known\. Do you mean cron\?/);
  },

  async 'the focus is never behind the bars at the top and the bottom'({page, service}) {
    await visit(page, service.url, view('alarms', {application: 'shop', prefix: 'hold-'}));
    for (let i = 0; i < 120; i++) {
      await page.keyboard.press('Tab');
      const hidden = await page.evaluate(() => {
        const at = document.activeElement.getBoundingClientRect();
        if (document.activeElement.closest('.top, .selection, .skip') || document.activeElement === document.body) return '';
        const seen = document.elementFromPoint(at.left + at.width / 2, at.top + at.height / 2);
        return seen && (document.activeElement.contains(seen) || seen.contains(document.activeElement)) ? '' : document.activeElement.outerHTML;
      });
      assert.equal(hidden, '', `after ${i + 1} tabs`);
    }
  },

  async 'a forecast has the occurrences of repeating alarms'({page, service}) {
    await service.call('PUT', alarm('ticks', 'often'), {repeat: {cron: '*/5 * * * *'}});
    await service.call('PUT', alarm('ticks', 'once'), {delay: '2h'});
    await visit(page, service.url, view('forecast', {application: 'ticks', by: 'hour'}));
    await page.locator('.readout .legend').nth(1).waitFor(); // the chart is drawn after the page
    const [shown, rules] = (await page.locator('.readout .legend').allInnerTexts()).map(text => Number(/\d+$/.exec(text)[0]));
    assert.deepEqual([shown, rules], [12, 12]);
    assert.ok(await page.locator('.chart .bar-2').count() >= 23); // the current hour may have none
    assert.match(await page.innerText('thead'), /Rings\s+Of them by rules/);
    assert.match(await page.innerText('tbody tr:first-child'), /\s13\s+12\s/);
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'forecast-rules.png'), fullPage: true});
    await visit(page, service.url, view('overview', {application: 'ticks'}));
    await page.waitForSelector('[aria-label^="Due in the next hour"]');
    assert.match(await page.getAttribute('[aria-label^="Due in the next hour"]', 'aria-label'), /rings in a minute: [\s\S]*; by rules of repeating alarms: /);
  },

  async 'an application shows how it fares, and an unknown one what may be meant'({page, service}) {
    await visit(page, service.url, view('application', {application: 'shop'}));
    const health = page.locator('section:has(h2:text-is("Health"))');
    assert.match(await health.innerText(), /Now\s+(on time|overdue|cannot|due alarms would wait)[\s\S]*Scheduled\s+[≥ \d,]+\s+Ringing\s+[\s\S]*Dead\s+\d/);
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'application-health.png'), fullPage: true});
    await health.locator('a[aria-label*="dead alarm"]').click();
    await page.waitForSelector('h1:has-text("Dead alarms of shop")');
    await visit(page, service.url, view('application', {application: 'shpo'}));
    assert.match(await page.innerText('.empty'), /No alarm and no setting of an application shpo is known\. Do you mean shop\?/);
    assert.equal(await health.count(), 0);
  },

  async 'a forecast has the largest applications, and a refusal leaves the filter'({page, service}) {
    const due = new Date(Math.ceil(Date.now() / 86400000) * 86400000 + 9 * 86400000).toISOString();
    for (let i = 0; i < 7; i++) {
      await service.call('POST', `/v1/applications/day-${i}/alarms`, {set: Array.from({length: 900 - 100 * i}, (_, n) => ({business_id: `a-${n}`, ring_at: due}))});
    }
    await visit(page, service.url, view('forecast', {by: 'day'}));
    await page.waitForSelector('.chart .bar-6');
    const rows = await page.locator('section:has(h2:text-is("Applications")) tbody tr').allInnerTexts();
    assert.match(rows.find(row => row.startsWith('day-0')), new RegExp(`^day-0\\s+900\\s+[\\d.]+ %\\s+${due.slice(0, 10)} [\\d:.]+\\s+900$`));
    assert.match(await page.locator('section:has(h2:text-is("The fullest days")) tbody').innerText(), new RegExp(`${due.slice(0, 10)}[^\n]*4,\\d{3}[^\n]*\\sday-0, 2\\d %`));
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'forecast-applications.png'), fullPage: true});
    await page.click('tbody a:text-is("day-3")');
    await page.waitForSelector('h1:has-text("Forecast of day-3")');
    await page.waitForSelector('.chart');
    assert.match(await page.innerText('.hint'), /600 rings/);
    await page.fill('#application', 'no such name');
    await page.press('#application', 'Enter');
    await page.waitForSelector('.failure');
    assert.match(await page.innerText('.failure'), /application/);
    assert.equal(await page.inputValue('#application'), 'no such name');
    for (let i = 0; i < 7; i++) await service.call('POST', '/v1/bulk', {application: `day-${i}`, action: 'cancel'});
  },

  async 'the audit leads to the jobs'({page, service}) {
    await service.call('PUT', alarm('jobbed', 'a'), {delay: '1h'});
    const {body: count} = await service.call('POST', '/v1/bulk', {application: 'jobbed', action: 'pause', dry_run: true});
    await service.call('POST', '/v1/bulk', {application: 'jobbed', action: 'pause', frozen_at: count.frozen_at});
    await visit(page, service.url, view('audit', {application: 'jobbed'}));
    await page.locator('tbody tr', {hasText: 'bulk start'}).locator('a.id').last().click();
    await page.waitForSelector('.summary .badge');
    assert.equal(await page.innerText('h1'), 'Bulk job');
  },

  async 'the life of an alarm leads to the jobs that may have changed it'({page, service}) {
    await service.call('PUT', alarm('lived', 'a'), {delay: '1h'});
    for (const [action, note] of [['pause', 'no stock'], ['resume', 'stock'], ['shift', 'later'], ['cancel', 'closed']]) {
      const {body: job} = await service.call('POST', '/v1/bulk', {application: 'lived', action, note, by: 'ann', shift: action === 'shift' ? '2h' : undefined});
      await until(`the ${action} ends`, async () => (await service.call('GET', `/v1/bulk/${job.id}`)).body.ended_at);
    }
    await visit(page, service.url, alarmView('lived', 'a'));
    await page.waitForSelector('.timeline');
    const bulk = (action, note) => `Bulk job begun by ann\\n[^\\n]*\\n${action}: ${note} · it may have changed this alarm · the job\\n[\\s\\S]*`;
    assert.match(await page.innerText('.timeline'), new RegExp(`Set\\n[\\s\\S]*${bulk('pause', 'no stock')}${bulk('resume', 'stock')}${bulk('shift', 'later')}Set again\\n[\\s\\S]*${bulk('cancel', 'closed')}Cancelled\\n`));
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'life.png'), fullPage: true});
    await page.locator('.timeline a', {hasText: 'the job'}).first().click();
    await page.waitForSelector('.summary .badge');
    assert.match(await page.innerText('main'), /no stock/);
  },

  async 'links lead to the alarms of the next hour and the next days'({browser, faults, service}) {
    const page = await openTab(browser, faults);
    const at = '2030-03-09T22:30:00Z'; // half past eleven in Berlin
    for (const [id, ring_at] of [['soon', '2030-03-09T23:00:00Z'], ['night', '2030-03-10T04:30:00Z'], ['day', '2030-03-10T12:00:00Z'], ['far', '2030-03-20T12:00:00Z']]) await service.call('PUT', alarm('times', id), {ring_at});
    await page.clock.setFixedTime(at);
    await page.route('**/v1/**', async route => { const response = await route.fetch(); await route.fulfill({response, headers: {...response.headers(), date: new Date(at).toUTCString()}}); });
    for (const [zone, link, ids] of [
      ['Europe/Berlin', 'the next hour', ['soon']], ['Europe/Berlin', 'today', []], ['Europe/Berlin', 'tonight (18 to 6)', ['soon', 'night']], ['Europe/Berlin', 'tomorrow', ['soon', 'night', 'day']],
      ['Asia/Tokyo', 'tonight (18 to 6)', ['day']], ['UTC', 'today', ['soon']],
    ]) {
      await visit(page, service.url, view('alarms', {application: 'times', tz: zone}));
      await page.click(`.links a:text-is("${link}")`);
      await page.waitForSelector('main .empty, tbody tr');
      assert.deepEqual(await page.locator('tbody a.id').allInnerTexts(), ids, `${link} in ${zone}`);
    }
    await page.context().close();
  },

  async 'the audit has the acts'({page, service}) {
    await service.call('PUT', alarm('shop', 'audited'), {delay: '1h'});
    await visit(page, service.url, alarmView('shop', 'audited'));
    await confirmed(page, '[data-action=pause]', 'no <b>stock</b>');
    await page.waitForSelector('.summary .badge.paused');
    assert.match(await page.innerText('.summary'), /resumes it: no <b>stock<\/b>/);
    await page.locator('.summary a', {hasText: 'Audit'}).click();
    await page.waitForSelector('tbody tr');
    assert.equal(await page.locator('tbody tr').count(), 1);
    await page.selectOption('#action', 'cancel');
    await page.fill('#subject', '');
    await page.click('.filter button');
    await page.waitForFunction(() => new URLSearchParams(location.search).get('action') === 'cancel' && !document.querySelector('.loading'));
    assert.ok((await page.locator('tbody tr td:nth-child(3)').allInnerTexts()).every(act => act === 'cancel'));
    await page.fill('#actor', 'nobody');
    await page.click('.filter button');
    await page.waitForSelector('main .empty');
    await visit(page, service.url, view('audit', {application: 'shop'}));
    assert.match(await page.innerText('tbody tr:first-child'), /pause[\s\S]*shop[\s\S]*audited[\s\S]*scheduled → paused[\s\S]*no <b>stock<\/b>/);
    await page.locator('tbody tr:first-child a', {hasText: 'audited'}).click();
    await page.waitForSelector('.timeline');
  },

  async 'rings appear as they happen, and stand still under the pointer and the focus'({page, service}) {
    await visit(page, service.url, view('rings', {application: 'live'}));
    assert.match(await page.innerText('main'), /No alarm has rung since you came/);
    const listening = listen(service, 'live');
    const ring = async id => {
      await service.call('PUT', alarm('live', id), {delay: 0});
      await until(`${id} rings`, async () => (await service.call('GET', alarm('live', id))).body.state === 'rung');
    };
    await ring('first');
    await page.waitForSelector('tbody tr');
    assert.match(await page.innerText('tbody tr'), /live\s+first\s+stream\s+1\s+\d+ ms\s+confirmed/);
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'rings-used.png'), fullPage: true});
    await page.hover('tbody tr');
    const seen = page.waitForResponse(async response => response.url().includes('/rings/recent') && (await response.text()).includes('"second"'));
    await ring('second');
    await seen;
    await page.waitForResponse('**/rings/recent?*');
    assert.equal(await page.locator('tbody tr').count(), 1);
    await page.mouse.move(0, 0);
    await page.waitForSelector('tbody tr:nth-child(2)');
    assert.deepEqual(await page.locator('td:nth-child(3)').allInnerTexts(), ['second', 'first']);
    await page.locator('td:nth-child(3) a', {hasText: 'first'}).focus();
    const third = page.waitForResponse(async response => response.url().includes('/rings/recent') && (await response.text()).includes('"third"'));
    await ring('third');
    await third;
    await page.waitForResponse('**/rings/recent?*');
    assert.equal(await page.locator('tbody tr').count(), 2);
    await page.keyboard.press('Enter');
    await page.waitForSelector('.timeline');
    assert.equal(await page.innerText('h1'), 'first');
    await listening.stop();
  },

  async 'a due range is in the time zone of the page'({page, service}) {
    const due = '2030-07-01T10:00:00.000Z';
    await service.call('PUT', alarm('shop', 'summer'), {ring_at: due});
    await visit(page, service.url, view('alarms', {application: 'shop', prefix: 'summer', tz: 'America/New_York'}));
    assert.match(await page.innerText('tbody'), /2030-07-01 06:00:00/);
    await page.fill('#after', '2030-07-01T06:00:00');
    await page.fill('#before', '2030-07-01T06:00:01');
    await page.locator('form button.primary').click();
    await page.waitForFunction(() => new URLSearchParams(location.search).get('after'));
    assert.equal(new URL(page.url()).searchParams.get('after'), due);
    await page.waitForSelector('tbody tr');
    assert.equal(await page.locator('tbody tr').count(), 1);
    await page.selectOption('#zone', 'Europe/Berlin');
    await page.waitForFunction(() => document.querySelector('tbody')?.innerText.includes('12:00:00'));
    assert.equal(await page.inputValue('#after'), '2030-07-01T12:00');
    await page.selectOption('#zone', 'UTC');
  },

  async 'dead alarms are kicked and discarded by cause and by filter'({page, service}) {
    const dead = async () => (await service.call('GET', '/v1/applications/shop/alarms?state=dead&limit=1000')).body.alarms.length;
    const before = await dead();
    await visit(page, service.url, view('dead', {application: 'shop', prefix: 'card-'}));
    assert.match(await page.innerText('main'), /9 × buried: the card was declined/);
    assert.match(await confirmed(page, 'section:has(h2:has-text("declined")) [data-action=discard]'), /Discard 9 alarms\?/);
    await page.waitForSelector('.notice.done');
    assert.equal(await dead(), before - 9);
    await visit(page, service.url, view('dead', {application: 'shop', prefix: 'card-'}));
    assert.match(await confirmed(page, '[data-bulk=kick]'), /Kick 4 alarms\?[\s\S]*Application\s+shop[\s\S]*dead, expired[\s\S]*card-[\s\S]*Alarms\s+4[\s\S]*For example\s+card-/);
    await page.waitForSelector('.summary .badge.rung');
    assert.match(await page.innerText('.summary'), /4 of 4 alarms kicked\./);
    assert.equal(await dead(), before - 13);
    const [kicked] = (await service.call('GET', '/v1/applications/shop/alarms?state=scheduled&prefix=card-&limit=1')).body.alarms;
    await visit(page, service.url, view('alarm', {application: 'shop', id: kicked.business_id}));
    assert.match(await page.innerText('.timeline'), /Dead\n[\s\S]*buried: [\s\S]*Bulk job begun[\s\S]*Kicked\n/);
  },

  async 'all alarms of a filter are changed by a job, which can be stopped'({page, service}) {
    const alarms = Array.from({length: 1000}, (_, i) => ({business_id: `bulk-${String(i).padStart(4, '0')}`, delay: '9h'}));
    for (const application of ['bulk-a', 'bulk-b']) await service.call('POST', `/v1/applications/${application}/alarms`, {set: alarms});
    await service.call('PUT', alarm('bulk-a', 'bulk-x'), {delay: '9h'});
    await visit(page, service.url, view('alarms', {application: 'bulk-a', prefix: 'bulk-', state: 'scheduled,rung'}));
    await page.click('summary');
    assert.deepEqual(await page.locator('[data-bulk]:disabled').allInnerTexts(), ['Resume all', 'Kick all', 'Discard all']);
    await page.click('[data-bulk=pause]');
    await page.waitForSelector('dialog #typed');
    assert.match(await page.innerText('dialog'), /Pause 1,001 alarms\?[\s\S]*scheduled[\s\S]*begins with\s+bulk-/);
    assert.ok(await page.isDisabled('dialog button.primary'));
    await page.fill('dialog #note', 'no <b>stock</b>');
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'bulk-confirmation.png')});
    await service.call('PUT', alarm('bulk-a', 'bulk-later'), {delay: '9h'});
    await page.fill('dialog #typed', 'bulk-a');
    await page.click('dialog button.primary');
    await page.waitForSelector('.summary .badge.rung');
    assert.match(await page.innerText('main'), /1,001 of 1,001 alarms paused\.[\s\S]*no <b>stock<\/b>/);
    assert.ok(await page.isHidden('[data-action=stop]'));
    assert.equal((await service.call('GET', alarm('bulk-a', 'bulk-later'))).body.state, 'scheduled');
    execSync((await (async () => {
      await page.getByRole('button', {name: 'command', exact: true}).click();
      return page.evaluate(() => navigator.clipboard.readText());
    })()).replace(/^clockd/, program), {stdio: 'pipe'});
    assert.equal((await service.call('GET', alarm('bulk-a', 'bulk-later'))).body.state, 'paused');

    await visit(page, service.url, view('alarms', {application: 'bulk-b'}));
    const {ring_at: before} = (await service.call('GET', alarm('bulk-b', 'bulk-0000'))).body;
    await page.click('summary');
    await page.click('[data-bulk=shift]');
    await page.fill('#asked-shift', 'soon');
    await page.click('dialog button.primary');
    await page.waitForSelector('.notice.failed');
    assert.match(await page.innerText('.notice.failed'), /Nothing was shifted: shift is "soon"/);
    await page.click('[data-bulk=shift]');
    await page.fill('#asked-shift', '-30m');
    await page.click('dialog button.primary');
    assert.match(await confirmed(page, 'dialog #note'), /Shift 1,000 alarms\?[\s\S]*-30m/);
    await page.waitForSelector('.summary .badge.rung');
    const {ring_at: after} = (await service.call('GET', alarm('bulk-b', 'bulk-0000'))).body;
    assert.equal(Date.parse(before) - Date.parse(after), 1800_000);

    const job = {id: 'JOB', status: 'running', application: 'shop', action: 'cancel', state: ['scheduled'], prefix: '', due_after: null, due_before: null, shift: null, frozen_at: before, by: 'ann', note: null, created_at: before, ended_at: null, changed: 7, refused: {already_rung: 2}};
    let stops = 0;
    await page.route('**/v1/bulk/JOB', route => route.fulfill({json: job}));
    await page.route('**/v1/bulk/JOB/stop', route => { stops++; Object.assign(job, {status: 'stopped', ended_at: before}); return route.fulfill({json: job}); });
    await visit(page, service.url, view('jobs', {job: 'JOB', of: 30}));
    assert.match(await page.innerText('.summary'), /7 of 30 alarms cancelled, 2 refused \(already_rung: 2\)\./);
    job.changed = 8;
    await page.focus('[data-action=stop]');
    await page.waitForFunction(() => document.querySelector('.sentence').innerText.startsWith('8 of 30'));
    await page.keyboard.press('Enter');
    await page.waitForSelector('.summary .badge.cancelled');
    assert.equal(stops, 1);
    await page.unrouteAll();
    await page.click('text=All jobs');
    await page.waitForSelector('tbody tr');
    assert.match(await page.innerText('tbody'), /Shift[\s\S]*bulk-b[\s\S]*by -30m[\s\S]*done[\s\S]*1,000/);
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'jobs.png'), fullPage: true});
    await checkAccessibility(page, 'jobs', allRules);
    await page.locator('tbody a', {hasText: 'Pause'}).first().click();
    await page.waitForSelector('.summary');
    if (screenshots) await page.screenshot({path: path.join(screenshots, 'job.png'), fullPage: true});
    await checkAccessibility(page, 'a job', allRules);
  },

  async 'the console works below a prefix'({browser, faults, service}) {
    const proxy = await startProxy(service.url);
    const page = await openTab(browser, faults);
    await page.goto(`${proxy.url}/ui`);
    await page.waitForSelector('.tiles');
    assert.equal(page.url(), `${proxy.url}/ui/`);
    await visit(page, proxy.url, alarmView('shop', 'hold-0100'));
    await confirmed(page, '[data-action=pause]');
    await page.waitForSelector('.summary .badge.paused');
    assert.equal((await service.call('GET', alarm('shop', 'hold-0100'))).body.state, 'paused');
    await page.context().close();
    proxy.stop();
  },

  async 'the page stops asking when it is hidden or paused, and after 401'({browser, faults, service}) {
    const page = await openTab(browser, faults);
    await page.clock.install();
    let asked = 0;
    await page.route('**/readyz', route => { asked++; return route.continue(); });
    await visit(page, service.url, '');
    const whileShown = asked;
    await pass(page, 10);
    await until('a shown page asks again', async () => asked > whileShown);
    await page.evaluate(() => { Object.defineProperty(document, 'hidden', {value: true, configurable: true}); });
    await pass(page, 10);
    const whileHidden = asked;
    await pass(page, 60);
    assert.equal(asked, whileHidden, 'a hidden page asks');
    await page.evaluate(() => { delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); });
    await until('a page that is shown again asks', async () => asked > whileHidden);
    await page.keyboard.press('p');
    assert.equal(await page.getAttribute('#pause', 'aria-pressed'), 'true');
    await pass(page, 10);
    const whilePaused = asked;
    await pass(page, 60);
    assert.equal(asked, whilePaused, 'a paused page asks');
    await page.click('#pause');
    await until('a page asks again after the pause', async () => asked > whilePaused);
    await page.route('**/v1/**', route => route.fulfill({status: 401, contentType: 'application/problem+json', body: '{"title":"Unauthorized","status":401,"code":"unauthenticated","detail":"the request needs an access token"}'}));
    await pass(page, 10);
    await page.waitForSelector('.notice.failed');
    const refused = asked;
    await pass(page, 120);
    assert.equal(asked, refused, 'a page asks again after 401');
    await page.context().close();
  },

  async 'the focus stays where it is when a page is read again'({browser, faults, service}) {
    const page = await openTab(browser, faults);
    await page.clock.install();
    let asked = 0;
    await page.route('**/readyz', route => { asked++; return route.continue(); });
    await visit(page, service.url, '');
    await page.focus('details summary');
    await page.keyboard.press('Enter');
    await page.evaluate(() => { document.querySelector('details').dataset.old = 'yes'; });
    await pass(page, 10);
    await page.waitForFunction(() => !document.querySelector('details').dataset.old);
    assert.ok(asked > 1);
    assert.deepEqual(await page.evaluate(() => [document.activeElement.tagName, document.querySelector('details').open]), ['SUMMARY', true]);
    await page.context().close();
  },

  async 'a page says when the server does not respond, and recovers'({browser, faults, service}) {
    const page = await openTab(browser, faults);
    await page.clock.install();
    await visit(page, service.url, alarmView('shop', 'hold-0050'));
    await page.waitForSelector('.timeline');
    await page.route('**/v1/**', route => route.abort('failed'));
    await pass(page, 10);
    await page.waitForSelector('main .notice.failed');
    assert.match(await page.innerText('main .notice.failed'), /may be old[\s\S]*does not respond/);
    assert.ok(await page.isVisible('.timeline'), 'what was shown is gone');
    await page.unrouteAll();
    await pass(page, 60);
    await page.waitForSelector('main .notice.failed', {state: 'detached'});
    await page.context().close();
  },

  async 'a token of the right role is needed, and a session stays until its end'({browser, faults}) {
    const closed = await startService({ops: 'operator', look: 'reader', worker: 'application', boss: 'admin'});
    const page = await openTab(browser, faults);
    try {
      const bearer = {Authorization: `Bearer ${closed.texts.ops}`};
      await closed.call('PUT', alarm('shop', 'guarded'), {delay: '1h'}, bearer);
      await visit(page, closed.url, alarmView('shop', 'guarded'));
      if (screenshots) await page.screenshot({path: path.join(screenshots, 'sign-in.png')});
      await checkAccessibility(page, 'sign in', allRules);
      const signIn = async text => {
        await page.fill('#token', text);
        await page.locator('.sign-in button').click();
      };
      await signIn(closed.texts.ops.slice(0, -1) + (closed.texts.ops.endsWith('x') ? 'y' : 'x'));
      await page.waitForSelector('.sign-in [role=alert]:has-text("checksum")');
      await signIn(closed.texts.look);
      await page.waitForSelector('.timeline');
      assert.equal(await page.innerText('#caller'), 'look, reader');
      assert.ok(await page.isDisabled('[data-action=pause]'));
      assert.match(await page.innerText('.actions'), /^Cancel\s+Not possible: your role is reader\./);
      assert.equal((await closed.call('POST', `${alarm('shop', 'guarded')}/pause`, undefined, {Authorization: `Bearer ${closed.texts.look}`})).status, 403);
      await page.click('#sign-out');
      await signIn(closed.texts.worker);
      await page.waitForSelector('.timeline');
      await confirmed(page, '[data-action=pause]');
      await page.waitForSelector('.notice.failed');
      assert.match(await page.innerText('.notice.failed'), /role and applications/);
      await page.click('#sign-out');
      await signIn(closed.texts.ops);
      await page.waitForSelector('.timeline');
      await confirmed(page, '[data-action=pause]');
      await page.waitForSelector('.summary .badge.paused');
      await page.locator('.actions li:has([data-action=resume])').getByRole('button', {name: 'curl', exact: true}).click();
      execSync(await page.evaluate(() => navigator.clipboard.readText()), {stdio: 'pipe', env: {...process.env, CLOCKD_TOKEN: closed.texts.ops}});
      assert.equal((await closed.call('GET', alarm('shop', 'guarded'), undefined, bearer)).body.state, 'scheduled');
      const stored = await page.evaluate(() => JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie + location.href);
      assert.ok(!stored.includes(closed.texts.ops), 'the token is stored');
      assert.ok(!(await page.context().cookies()).some(c => c.value === closed.texts.ops), 'a cookie has the token');
      await page.reload();
      await page.waitForSelector('.timeline');
      assert.equal(await page.innerText('#caller'), 'ops, operator');
      await page.click('#pages [data-view=tokens]');
      await page.waitForSelector('.failure');
      assert.match(await page.innerText('.failure'), /needs the role admin/);

      const other = await openTab(browser, faults);
      await visit(other, closed.url, view('tokens'));
      await other.fill('#token', closed.texts.boss);
      await other.locator('.sign-in button').click();
      await other.waitForSelector('[aria-label=Sessions] tbody tr');
      const sessions = await other.innerText('[aria-label=Sessions] tbody');
      assert.match(sessions, /boss \(this one\)/);
      assert.doesNotMatch(sessions, /look/);
      if (screenshots) await other.screenshot({path: path.join(screenshots, 'tokens-used.png'), fullPage: true});
      await checkAccessibility(other, 'tokens and sessions', allRules);
      assert.match(await confirmed(other, 'tr:has-text("ops") [data-action=end]'), /session of ops/);
      await other.waitForSelector('.notice.done');
      await other.waitForFunction(() => !document.querySelector('.loading'));
      assert.equal(await other.locator('[data-action=end]').count(), 1);
      await page.click('#pages [data-view=overview]');
      await page.waitForSelector('.sign-in');
      assert.match(await page.innerText('.sign-in'), /session has ended/);
      assert.equal(await page.innerText('#caller'), '');
      await other.click('#sign-out');
      await other.waitForSelector('.sign-in');
      let refused = 0;
      await other.route('**/v1/session', route => route.request().method() === 'GET' && refused++ === 0 ? route.fulfill({status: 503, contentType: 'application/problem+json', body: '{"status":503,"code":"unavailable"}'}) : route.continue());
      await other.fill('#token', closed.texts.boss);
      await other.locator('.sign-in button').click();
      await other.waitForSelector('[aria-label=Sessions] tbody tr');
      assert.equal(refused > 1, true);
      await other.click('#sign-out');
      await other.waitForSelector('.sign-in');
      await other.reload();
      await other.waitForSelector('.sign-in');
      await other.context().close();
    } finally {
      await page.context().close();
      await closed.stop();
    }
  },

  async 'people sign in with a provider, and come back to their page'({browser, faults}) {
    const issuer = await startIssuer();
    const closed = await startService({}, {CLOCKD_OIDC_ISSUER: issuer.url, CLOCKD_OIDC_CLIENT_ID: 'clockd', CLOCKD_OIDC_REDIRECT_URL: 'https://clockd.example/v1/oidc/callback', CLOCKD_OIDC_GROUPS: 'ops=operator:shop'});
    issuer.back = closed.url;
    const page = await openTab(browser, faults);
    try {
      issuer.person = {sub: '18', email: 'eve@example.com', groups: ['guests']};
      await visit(page, closed.url, view('alarms', {application: 'shop', tz: 'Asia/Tokyo'}));
      await page.click('.sign-in a.button');
      await page.waitForSelector('.sign-in [role=alert]:has-text("none of your groups")');
      await page.waitForSelector('.sign-in a.button');
      if (screenshots) await page.screenshot({path: path.join(screenshots, 'sign-in-provider.png')});
      await checkAccessibility(page, 'sign in with a provider', allRules);
      issuer.person = {sub: '17', email: 'anna@example.com', groups: ['ops']};
      await visit(page, closed.url, view('alarms', {application: 'shop', tz: 'Asia/Tokyo'}));
      await page.click('.sign-in a.button');
      await page.waitForSelector('main .empty');
      const came = new URL(page.url());
      assert.equal(came.origin + came.pathname, `${closed.url}/ui/`);
      assert.deepEqual([came.searchParams.get('view'), came.searchParams.get('tz'), came.searchParams.has('sign_in')], ['alarms', 'Asia/Tokyo', false]);
      assert.equal(await page.innerText('#caller'), 'anna@example.com, operator');
      await page.reload();
      await page.waitForSelector('main .empty');
      await page.click('#sign-out');
      await page.waitForSelector('.sign-in');
      await page.reload();
      await page.waitForSelector('.sign-in');
    } finally {
      await page.context().close();
      await closed.stop();
      issuer.stop();
    }
  },

  async 'an admin changes settings, and sees what differs'({browser, faults, page: open, service}) {
    await visit(open, service.url, view('application', {application: 'shop'}));
    assert.ok(await open.isDisabled('[data-action=pause]') && await open.isDisabled('[data-action=edit]'));
    assert.match(await open.innerText('main'), /Not possible here: only a token with the role admin/);
    const refused = await service.call('PUT', '/v1/applications/shop/settings', {paused: true}, {'If-Match': '"0"'});
    assert.equal(refused.status, 403);
    assert.match(refused.body.detail, /token/);

    const closed = await startService({boss: 'admin'});
    const page = await openTab(browser, faults);
    const bearer = {Authorization: `Bearer ${closed.texts.boss}`};
    const settings = '/v1/applications/shop/settings';
    const stored = async () => (await closed.call('GET', settings, undefined, bearer)).body;
    try {
      await visit(page, closed.url, view('application', {application: 'shop'}));
      await page.fill('#token', closed.texts.boss);
      await page.locator('.sign-in button').click();
      const edit = async text => {
        await page.click('[data-action=edit]');
        await page.fill('#settings', text);
        await page.keyboard.press('Tab');
        await page.keyboard.press('Enter');
      };
      await edit('{"max_rings": }');
      await page.waitForSelector('.notice.failed');
      assert.match(await page.innerText('.notice.failed'), /no JSON/);
      await edit('{"max_ringz": 3}');
      await page.click('dialog button.primary');
      await page.waitForFunction(() => /not changed: [\s\S]*max_ringz/.test(document.querySelector('.notice.failed')?.innerText));
      assert.equal(await page.inputValue('#settings'), '{"max_ringz": 3}', 'the text is lost');
      await edit('{"target":"webhook","webhook":{"url":"https://shop.example/?key=hush","secrets":["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"],"headers":{"x-key":"hush"}}}');
      await page.waitForSelector('dialog .diff');
      assert.match(await page.innerText('dialog .diff'), /\+ {3}"target": "webhook"/);
      if (screenshots) await page.screenshot({path: path.join(screenshots, 'settings-diff.png')});
      await checkAccessibility(page, 'the differences of settings', allRules);
      await page.click('dialog button.primary');
      await page.waitForSelector('.notice.done');
      assert.match(await page.innerText('.notice.done'), /version 1 now/);
      await page.waitForFunction(() => !document.querySelector('.loading'));

      await page.click('[data-action=edit]');
      const shown = await page.inputValue('#settings');
      assert.ok(!shown.includes('hush') && shown.includes('"x-key": "..."'), shown);
      if (screenshots) await page.screenshot({path: path.join(screenshots, 'settings-edit.png'), fullPage: true});
      await checkAccessibility(page, 'the editor of settings', allRules);
      await page.fill('#settings', shown.replace(/\}\s*$/, ',"max_rings":3}'));
      await page.locator('main form button.primary').click();
      assert.deepEqual(await page.locator('dialog .diff ins').allInnerTexts(), ['+   },\n', '+   "max_rings": 3\n']);
      assert.equal((await closed.call('PUT', settings, {...(await stored()).settings, max_rings: 9}, bearer)).status, 200);
      await page.click('dialog button.primary');
      await page.waitForSelector('.notice.failed');
      assert.match(await page.innerText('.notice.failed'), /somebody else has changed them/);
      assert.equal((await stored()).settings.max_rings, 9);

      await visit(page, closed.url, view('overview'));
      await page.waitForSelector('.tiles');
      await page.click('#pages [data-view=applications]');
      await page.waitForSelector('tbody a.id');
      await page.click('tbody a.id');
      for (const [action, paused] of [['pause', true], ['resume', undefined]]) {
        await page.waitForSelector(`[data-action=${action}]`);
        await confirmed(page, `[data-action=${action}]`);
        await page.waitForSelector(`[data-action=${action}]`, {state: 'detached'});
        assert.equal((await stored()).settings.paused, paused);
      }
      assert.equal((await closed.call('PUT', alarm('shop', 'secret'), {delay: '1h', payload: {card: 4711}}, bearer)).status, 201);
      await visit(page, closed.url, alarmView('shop', 'secret'));
      await page.waitForSelector('.timeline');
      assert.match(await page.innerText('main'), /4711/);
      assert.equal((await closed.call('PUT', settings, {...(await stored()).settings, hide_payload: true, paused: true}, bearer)).status, 200);
      await until('the node applies the setting', async () => (await stored()).effective.hide_payload);
      await visit(page, closed.url, view('alarms', {application: 'shop'}));
      await page.waitForSelector('tbody tr');
      assert.match(await page.innerText('main'), /The application is paused/);
      await visit(page, closed.url, alarmView('shop', 'secret'));
      await page.waitForSelector('[data-action=show-payload]');
      assert.match(await page.innerText('.summary'), /The application is paused/);
      assert.doesNotMatch(await page.innerText('main'), /4711/);
      await checkAccessibility(page, 'a hidden payload', allRules);
      await page.click('[data-action=show-payload]');
      assert.match(await page.innerText('main'), /4711/);
      const secrets = execFileSync(program, ['application', 'show', 'shop', '--secrets'], {env: {CLOCKD_DATABASE_URL: closed.database}, encoding: 'utf8', stdio: 'pipe'});
      assert.match(secrets, /key=hush[\s\S]*"x-key":"hush"/);
    } finally {
      await page.context().close();
      await closed.stop();
    }
  },

  async 'the chosen colours stay'({page, service}) {
    await visit(page, service.url, '');
    await page.selectOption('#theme', 'dark');
    await page.reload();
    await page.waitForSelector('main h1');
    assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), 'dark');
    await page.selectOption('#theme', '');
  },
};

async function run() {
  if (screenshots) await mkdir(screenshots, {recursive: true});
  const service = await startService();
  const browser = await chromium.launch({executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox']});
  let failed = 0;
  try {
    await seed(service);
    await fill(service, 'crowd', crowd);
    const chosen = process.env.ONLY ? Object.entries(checks).filter(([name]) => name.includes(process.env.ONLY)) : Object.entries(checks);
    const all = [];
    const page = await openTab(browser, all);
    for (const [name, check] of chosen) {
      const begun = Date.now();
      try {
        await check({browser, faults: all, page, service});
        assert.deepEqual(all, []);
        console.log(`ok   ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
      } catch (cause) {
        failed++;
        console.log(`FAIL ${name}\n${cause.stack}\nfaults: ${all.join('\n')}\nnotice: ${await page.locator('#notice').innerText().catch(() => '')}`);
        if (screenshots) await page.screenshot({path: path.join(screenshots, `failed-${failed}.png`)});
      }
      await page.unrouteAll();
      all.length = 0;
    }
  } finally {
    await browser.close();
    await service.stop();
  }
  if (failed > 0) throw new Error(`${failed} checks failed`);
}

await run();
