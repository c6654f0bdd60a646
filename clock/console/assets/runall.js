// An action on the alarms of a page: at most 1,000, because no page has more.

import {clear, notify, reason} from './notice.js';
import {confirm} from './dialog.js';
import {count, plural} from './format.js';
import {el} from './dom.js';
import {facts} from './parts.js';
import {performAll} from './actions.js';

/** Carries out an action on the selected alarms that allow it, after a confirmation. */
export async function runAll(view, action, selected, possible) {
  const others = selected.length - possible.length;
  const applications = [...new Set(possible.map(a => a.application))];
  const named = a => applications.length > 1 ? `${a.application}/${a.business_id}` : a.business_id;
  const confirmed = await confirm({
    title: `${action.verb} ${plural(possible.length, 'alarm')}?`, noted: true, verb: `${action.verb} ${plural(possible.length, 'alarm')}`,
    body: [
      facts([[applications.length > 1 ? 'Applications' : 'Application', applications.join(', ')], ['Alarms', count(possible.length)], ['For example', possible.slice(0, 5).map(named).join(', ')]]),
      el('p', {}, `Each alarm ${action.effect}`),
      others > 0 && el('p', {}, `${plural(others, 'other selected alarm')} cannot be ${action.done}, because of the state.`),
      el('p', {class: 'hint'}, 'An alarm that was set again since this list was read stays as it is.'),
    ],
  });
  if (!confirmed) return;
  clear();
  const outcome = await performAll(action, possible, confirmed, view.signal, (done, failed) => notify('busy', `${count(done + failed)} of ${plural(possible.length, 'alarm')}…`));
  if (view.signal.aborted) return;
  view.reload();
  if (outcome.failures.length === 0) return notify('done', `${plural(outcome.done, 'alarm')} ${action.done}.`);
  const [first] = outcome.failures;
  notify('failed', `${plural(outcome.done, 'alarm')} ${action.done}, ${count(outcome.failures.length + outcome.left)} not. The first: ${named(first.alarm)}: ${reason(first.problem)}`);
}
