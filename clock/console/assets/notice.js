// Messages to the person, also read by screen readers.

import {el, replace} from './dom.js';
import {Problem} from './api.js';
import {signedIn} from './caller.js';

const area = document.getElementById('notice');

/** Shows a message until the next one, or until the person closes it. kind is "done", "failed" or "busy". */
export function notify(kind, ...content) {
  replace(area, el('div', {class: `notice ${kind}`}, el('p', {}, content), el('button', {type: 'button', 'aria-label': 'Close the message', click: clear}, '×')));
}

/** Removes the message. */
export function clear() { replace(area); }

/** Returns why a request failed, and what to do about it. */
export function reason(problem) {
  return [problem.message.replace(/[^.!?]$/, '$&.'), remedy(problem)].filter(Boolean).join(' ');
}

/** Shows that a change of the page failed, unless the person has left the page. why replaces the reason of the server. */
export function failed(view, what, problem, why = '') {
  if (view.signal.aborted) return;
  if (!(problem instanceof Problem)) throw problem;
  notify('failed', `${what}: ${why || reason(problem)}`);
}

function remedy(problem) {
  switch (true) {
    case problem.status === 0: return 'Check that clockd runs and that this machine reaches it, then try again.';
    case problem.status === 401: return 'Sign in with an access token.';
    case problem.code === 'forbidden' && signedIn(): return 'Use a token whose role and applications allow it.';
    case problem.code === 'unknown_host': return 'Add the name in the address bar to CLOCKD_HOSTS.';
    case problem.code === 'condition_failed': return 'The alarm has changed since you read it. Look at it again, then decide.';
    case problem.status === 409: return 'The state of the alarm has changed. Look at it again.';
    case problem.status === 503: return `Nothing is lost. Try again${problem.retryAfter ? ` in ${problem.retryAfter} s` : ''}; a repeat is safe.`;
    case problem.status >= 500: return `The log of the server has the cause, under the request id ${problem.requestId}.`;
    default: return '';
  }
}

/** Returns a panel about a failed request. again repeats it, where that may help. */
export function failure(problem, again) {
  const mayPass = problem.status === 0 || problem.status >= 500 || [408, 409, 429].includes(problem.status);
  return el('div', {class: 'failure', role: 'alert'},
    el('h2', {}, 'This cannot be shown'), el('p', {}, reason(problem)),
    mayPass && again && el('p', {}, el('button', {type: 'button', click: again}, 'Try again')));
}
