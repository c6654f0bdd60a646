// Signs in with an access token. Where the browser keeps secure cookies, the server gives it a session, and the page forgets the token. Elsewhere
// the token stays in the memory of the page.

import {act, get, useToken} from './api.js';
import {caller, setCaller, signedIn} from './caller.js';
import {el, replace} from './dom.js';
import {failed} from './notice.js';

const out = document.getElementById('sign-out');
const name = document.getElementById('caller');

/** Returns the form that asks for a token, with the server's reason. again shows the page again. */
export function signIn(problem, again) {
  useToken('');
  show(null);
  const input = el('input', {id: 'token', name: 'token', type: 'password', autocomplete: 'current-password', required: true, spellcheck: 'false'});
  const button = el('button', {type: 'submit', class: 'primary'}, 'Sign in');
  return el('form', {class: 'card sign-in', submit: async event => {
    event.preventDefault();
    button.disabled = true;
    await enter(input.value.trim());
    again();
  }},
  el('h2', {}, 'Sign in'), el('p', {role: 'alert'}, `The server responds: ${problem.message}.`),
  el('p', {class: 'field'}, el('label', {for: 'token'}, 'Access token'), input),
  el('p', {class: 'buttons'}, button),
  el('p', {class: 'hint'}, isSecureContext ? 'You stay signed in until you sign out, or the session ends. ' : 'Without TLS the page forgets the token when you reload or close it. ',
    el('code', {}, 'clockd token create NAME --role operator'), ' makes a token.'));
}

/** Signs in. After a failure the next request has the token, and its response says what is wrong. */
async function enter(token) {
  useToken(token);
  if (isSecureContext && await act('POST', 'v1/session').then(() => true, () => false)) {
    useToken('');
    if (await learnCaller()) return;
    useToken(token); // the browser has dropped the cookie
  }
  await learnCaller();
}

/** Asks the server who this page is. Returns whether the server knows. */
export async function learnCaller() {
  const known = await get('v1/session').catch(() => null);
  show(known);
  return known !== null;
}

function show(known) {
  setCaller(known);
  out.hidden = !signedIn();
  replace(name, signedIn() && `${caller().name}, ${caller().role}`);
}

/** Starts the button that ends the session, or forgets the token. again shows the page again. */
export function startSignOut(again) {
  out.addEventListener('click', async () => {
    try {
      if (caller().session) await act('DELETE', 'v1/session');
    } catch (problem) {
      if (problem.status !== 401) return failed({signal: new AbortController().signal}, 'You are still signed in', problem);
    }
    useToken('');
    show(null);
    again();
  });
}
