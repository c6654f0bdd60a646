// Signs in with an access token. The token stays in the memory of the page: no storage and no cookie has it.

import {el} from './dom.js';
import {useToken} from './api.js';

const out = document.getElementById('sign-out');

/** Returns the form that asks for a token, with the server's reason. again shows the page again. */
export function signIn(problem, again) {
  useToken('');
  out.hidden = true;
  const input = el('input', {id: 'token', name: 'token', type: 'password', autocomplete: 'current-password', required: true, spellcheck: 'false'});
  return el('form', {class: 'card sign-in', submit: event => {
    event.preventDefault();
    useToken(input.value.trim());
    out.hidden = false;
    again();
  }},
  el('h2', {}, 'Sign in'), el('p', {role: 'alert'}, `The server responds: ${problem.message}.`),
  el('p', {class: 'field'}, el('label', {for: 'token'}, 'Access token'), input),
  el('p', {class: 'buttons'}, el('button', {type: 'submit', class: 'primary'}, 'Sign in')),
  el('p', {class: 'hint'}, 'The page forgets the token when you reload or close it. ', el('code', {}, 'clockd token create NAME --role operator'), ' makes a token.'));
}

/** Starts the button that forgets the token. again shows the page again. */
export function startSignOut(again) {
  out.addEventListener('click', () => {
    useToken('');
    out.hidden = true;
    again();
  });
}
