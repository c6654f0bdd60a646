// Fields that several filters have.

import {el} from './dom.js';

/** Returns the field of an application, with the known ones as proposals. */
export function applicationField(value, known, required = false) {
  return [
    el('p', {class: 'field'}, el('label', {for: 'application'}, required ? 'Application' : 'Application (none: all)'),
      el('input', {id: 'application', name: 'application', value: value || '', required, list: 'known-applications', autocomplete: 'off', spellcheck: 'false'})),
    el('datalist', {id: 'known-applications'}, known.map(name => el('option', {value: name}))),
  ];
}

/** Returns a field for a text. */
export function textField(name, label, value, attributes = {}) {
  return el('p', {class: 'field'}, el('label', {for: name}, label), el('input', {id: name, name, value: value || '', autocomplete: 'off', spellcheck: 'false', ...attributes}));
}

/** Returns the field of the beginning of business ids. */
export function prefixField(value) { return textField('prefix', 'Business id begins with', value, {maxlength: '128'}); }
