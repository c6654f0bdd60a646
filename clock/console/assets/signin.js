// Signs in with an access token. Where the browser keeps secure cookies, the server gives it a session, and the page forgets the token. Elsewhere
// the token stays in the memory of the page.

import {act, address, get, useToken} from './api.js';
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
  el('h2', {}, 'Sign in'), el('p', {role: 'alert'}, outcome() || `The server responds: ${problem.message.replace(/: send the header.*/, ': paste it here')}.`), provider(),
  el('p', {class: 'field'}, el('label', {for: 'token'}, 'Access token'), input),
  el('p', {class: 'buttons'}, button),
  el('p', {class: 'hint'}, isSecureContext ? 'You stay signed in until you sign out, or the session ends. ' : 'Without TLS the page forgets the token when you reload or close it. ',
    el('code', {}, 'clockd token create NAME --role operator'), ' makes a token.'));
}

/** What to do after a sign-in with the provider has failed. */
const outcomes = {
  denied: 'The provider knows you, but none of your groups has a role here. Ask an admin of clockd for one (CLOCKD_OIDC_GROUPS).',
  failed: 'The sign-in has failed, or took too long. Try again. The log and the audit of the server have the reason.',
  unavailable: 'The provider does not respond. Try again, or sign in with an access token.',
};

function outcome() { return outcomes[new URLSearchParams(location.search).get('sign_in')]; }

/** Returns the place of the link to the provider, which appears if there is one. */
function provider() {
  const place = el('div', {});
  get('v1/oidc').then(({issuer}) => {
    if (!issuer) return;
    const query = new URLSearchParams(location.search);
    query.delete('sign_in');
    replace(place, el('p', {class: 'buttons'}, el('a', {class: 'button primary', href: address('v1/oidc/start', {page: `?${query}`}).href}, `Sign in with ${new URL(issuer).host}`)), el('p', {class: 'hint'}, 'Or with an access token:'));
  }).catch(() => {}); // the form for a token stays
  return place;
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

/** Starts the button that forgets the token and ends the session, which the browser may have without the page's knowledge. again shows the page
 * again. */
export function startSignOut(again) {
  out.addEventListener('click', async () => {
    useToken('');
    try {
      await act('DELETE', 'v1/session');
    } catch (problem) {
      if (problem.status !== 401) return failed({signal: new AbortController().signal}, 'You may be signed in yet', problem);
    }
    show(null);
    again();
  });
}
