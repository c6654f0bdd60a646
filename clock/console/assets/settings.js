// Changes the settings of an application: as JSON, with the differences before they are stored.

import {act} from './api.js';
import {caller} from './caller.js';
import {clear, failed, notify} from './notice.js';
import {confirm} from './dialog.js';
import {diffView} from './diff.js';
import {el, replace} from './dom.js';
import {layOut} from './rawjson.js';

/** Returns the buttons that change the settings, and the place of the editor. text is the JSON of the present settings. */
export function settingsEditor(view, path, settings, text) {
  const place = el('div', {});
  const {paused} = settings.settings;
  const disabled = caller()?.role !== 'admin';
  const save = (after, asked) => store(view, path, settings, text, after, asked);
  const edit = el('button', {type: 'button', 'data-action': 'edit', disabled, click: () => { replace(place, editor(text, save)); place.querySelector('textarea').focus(); }}, 'Edit the settings');
  const hold = el('button', {type: 'button', 'data-action': paused ? 'resume' : 'pause', disabled, click: () => save(JSON.stringify({...settings.settings, paused: !paused}), holding(settings.application, paused))}, paused ? 'Resume the application' : 'Pause the application');
  return [el('p', {class: 'buttons'}, edit, hold), disabled && el('p', {class: 'muted'}, 'Not possible here: only a token with the role admin changes settings. Whoever runs clockd can create one: ', el('code', {}, 'clockd token create NAME --role=admin'), '. The commands below need none on the machine of the service.'), place];
}

/** Returns the confirmation of a pause of the application, or of its end. */
function holding(application, paused) {
  return paused
    ? {title: `Resume the application ${application}?`, verb: 'Resume the application', body: el('p', {}, 'Its alarms ring again. Those that came due meanwhile ring at once.')}
    : {title: `Pause the application ${application}?`, verb: 'Pause the application', body: el('p', {}, 'None of its alarms rings until the application is resumed. They can still be set and cancelled. An alarm whose latest time passes meanwhile expires.')};
}

function editor(text, save) {
  const input = el('textarea', {id: 'settings', rows: String(Math.min(24, Math.max(8, layOut(text).split('\n').length + 3))), spellcheck: 'false', autocomplete: 'off'});
  input.value = layOut(text);
  return el('form', {submit: event => { event.preventDefault(); save(input.value); }},
    el('p', {class: 'field'}, el('label', {for: 'settings'}, 'Settings as JSON. A member that is missing has its default.'), input),
    el('p', {class: 'hint'}, 'Three dots stand for a value that is not shown. Leave them, and the stored value stays.'),
    el('p', {class: 'buttons'}, el('button', {type: 'submit', class: 'primary'}, 'Show the differences')));
}

/** Stores a document as the next version, after the confirmation that is given, or one with the differences. */
async function store(view, path, settings, before, after, asked) {
  clear();
  try {
    JSON.parse(after);
  } catch (fault) {
    return notify('failed', `This is no JSON: ${fault.message}.`);
  }
  const [first, second] = [layOut(before), layOut(after)];
  if (first === second) return notify('done', 'Nothing differs from the present settings.');
  const confirmed = await confirm(asked || {
    title: `Change the settings of ${settings.application}?`, verb: `Store version ${settings.version + 1}`,
    body: [diffView(first, second), el('p', {class: 'hint'}, 'Every node applies it within 2 seconds.')],
  });
  if (!confirmed) return;
  try {
    const stored = await act('PUT', path, {generation: settings.version, text: after, signal: view.signal});
    notify('done', stored.version === settings.version ? 'Nothing differs from the present settings.' : `The settings have version ${stored.version} now.`);
    view.reload();
  } catch (problem) {
    const raced = problem.code === 'condition_failed';
    failed(view, 'The settings were not changed', problem, raced && 'somebody else has changed them since you read them. Read the page again (r), then edit.');
  }
}
