// Repeats reads while somebody looks at them.

import {el, replace} from './dom.js';
import {signedIn} from './caller.js';
import {reason} from './notice.js';

const longest = 60;

const button = document.getElementById('pause');
let paused = false; // a person has stopped the updates

/** Stops the updates of all pages, or lets them go on. */
export function togglePause() {
  paused = !paused;
  button.setAttribute('aria-pressed', String(paused));
  button.querySelector('path').setAttribute('d', paused ? 'M2 1l7 4-7 4z' : 'M2 1h2v8H2zM6 1h2v8H6z');
  button.title = paused ? 'Updates are paused: let them go on (p)' : 'Pause the updates (p)';
  document.dispatchEvent(new Event('visibilitychange'));
}

/** Calls work at once, then every some seconds, until the signal aborts. It waits while the page is hidden or paused, and ends after 401. After a failure it
 * waits twice as long. fail(problem) shows a failure, and fail(null) removes the message. */
async function every(seconds, signal, work, fail) {
  let wait = seconds;
  while (!signal.aborted) {
    try {
      await work();
      wait = seconds;
      fail(null);
    } catch (problem) {
      if (signal.aborted) return;
      wait = Math.min(longest, wait * 2);
      fail(problem);
      if (problem.status === 401 || problem.code === 'rate_limited' && !signedIn()) return;
    }
    await pause(wait * 1000, signal);
    await visible(signal);
  }
}

function pause(ms, signal) {
  return new Promise(done => {
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', () => { clearTimeout(timer); done(); }, {once: true});
  });
}

function visible(signal) {
  return new Promise(done => {
    const waits = () => (document.hidden || paused) && !signal.aborted;
    if (!waits()) return done();
    const look = () => {
      if (waits()) return;
      document.removeEventListener('visibilitychange', look);
      done();
    };
    document.addEventListener('visibilitychange', look);
    signal.addEventListener('abort', look, {once: true});
  });
}

/** Draws the content again. The element with the focus has it afterwards, if there is one of its kind in its place. */
function keepingFocus(content, draw) {
  const focused = content.contains(document.activeElement) ? document.activeElement : null;
  const place = [];
  for (let e = focused; e && e !== content; e = e.parentElement) place.unshift([...e.parentElement.children].indexOf(e));
  draw();
  const now = focused && place.reduce((e, i) => e?.children[i], content);
  if (now && now !== focused && now.tagName === focused.tagName) now.focus({preventScroll: true});
}

/** Shows a part of a page that is read again and again: draw(content, await read()). A failure of the first read goes to the caller. Later ones
 * leave the content as it is, with a message that it may be old. */
export async function live(view, seconds, read, draw) {
  const stale = el('div', {role: 'status'});
  const content = el('div', {});
  await every(seconds, view.signal, async () => {
    const value = await read();
    if (!content.isConnected) replace(view.body, stale, content);
    keepingFocus(content, () => draw(content, value));
  }, problem => {
    if (!problem) return replace(stale);
    if (!content.isConnected) throw problem;
    replace(stale, el('p', {class: 'notice failed'}, `What you see may be old. ${reason(problem)}`));
  });
}
