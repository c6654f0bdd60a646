// The one dialog of the page.

import {el, replace} from './dom.js';
import {fieldInstant, fieldOf, zoneLabel} from './format.js';

const dialog = document.getElementById('dialog');

/** Asks for a confirmation. body has the nodes that say what happens; verb is the name of the button; typed is a text that the person must type;
 * asked are further instants or texts that it asks for, each with a name, a label, and an instant (value) or a text; noted asks for a note. Returns null
 * unless the person confirms, else what the person filled in, by name: the note is note. */
export function confirm({title, body, verb, typed = '', asked = [], noted = false}) {
  const button = el('button', {type: 'submit', value: 'yes', class: 'primary', disabled: typed !== ''}, verb);
  const mistyped = el('span', {class: 'error-text', role: 'status'});
  const input = typed && el('input', {id: 'typed', type: 'text', autocomplete: 'off', input: () => {
    const text = input.value.trim();
    button.disabled = text !== typed;
    replace(mistyped, text && !typed.startsWith(text) && `This is not ${typed}.`);
  }});
  const fields = asked.map(field);
  const note = noted && el('input', {id: 'note', type: 'text', autocomplete: 'off', maxlength: '300'});
  replace(dialog,
    el('form', {method: 'dialog'},
      el('h2', {id: 'dialog-title'}, title), body,
      fields.map(({label, input}) => el('p', {}, el('label', {for: input.id}, label), input)),
      noted && el('p', {}, el('label', {for: 'note'}, 'Why? The audit keeps it. You may leave it empty.'), note),
      typed && el('p', {}, el('label', {for: 'typed'}, 'To confirm, type ', el('strong', {}, typed)), input, ' ', mistyped),
      el('div', {class: 'buttons'}, button, el('button', {type: 'submit', value: ''}, 'Go back'))));
  return open().then(value => value === 'yes'
    ? Object.fromEntries([...fields.map(({name, read}) => [name, read()]), ['note', noted ? note.value.trim() : '']]) : null);
}

/** Returns the input of what a confirmation asks for, with its label and a function that reads it. */
function field({name, label, value, text}) {
  if (text !== undefined) {
    const input = el('input', {id: `asked-${name}`, type: 'text', required: true, value: text, autocomplete: 'off', spellcheck: 'false'});
    return {name, label, input, read: () => input.value.trim()};
  }
  const input = el('input', {id: `asked-${name}`, type: 'datetime-local', step: '1', required: true, value: fieldOf(value)});
  return {name, label: `${label}, ${zoneLabel()}`, input, read: () => fieldInstant(input.value)};
}

/** Shows a text until the person closes it. */
export function show(title, ...body) {
  replace(dialog, el('form', {method: 'dialog'}, el('h2', {id: 'dialog-title'}, title), body, el('div', {class: 'buttons'}, el('button', {type: 'submit', value: ''}, 'Close'))));
  return open();
}

/** Reports whether the dialog is open. */
export function isOpen() { return dialog.open; }

function open() {
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise(done => dialog.addEventListener('close', () => done(dialog.returnValue), {once: true}));
}
