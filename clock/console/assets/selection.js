// A table of alarms from which a person selects some, to act on them.

import {actions} from './actions.js';
import {count, plural} from './format.js';
import {el, replace, table} from './dom.js';
import {runAll} from './runall.js';

/** Returns a table of alarms with a box in each row, and below it the actions on the selected ones. */
export function selectable(view, caption, columns, alarms) {
  const selected = new Set();
  const bar = el('div', {class: 'selection'});
  const boxes = new Map();
  const mark = (alarm, on) => {
    if (on) selected.add(alarm);
    else selected.delete(alarm);
  };
  const all = el('input', {type: 'checkbox', 'aria-label': 'Select all alarms on this page', change: () => {
    for (const [alarm, box] of boxes) {
      box.checked = all.checked;
      mark(alarm, all.checked);
    }
    drawBar();
  }});
  const boxOf = alarm => {
    const box = el('input', {type: 'checkbox', 'aria-label': `Select ${alarm.business_id}`, change: () => {
      mark(alarm, box.checked);
      drawBar();
    }});
    boxes.set(alarm, box);
    return box;
  };
  const drawBar = () => {
    all.checked = selected.size === alarms.length;
    all.indeterminate = selected.size > 0 && !all.checked;
    drawActions(view, bar, [...selected]);
  };
  drawBar();
  return [table(caption, [{head: all, cell: boxOf, control: true, class: 'check'}, ...columns], alarms), bar];
}

function drawActions(view, bar, selected) {
  replace(bar, el('p', {role: 'status'}, selected.length === 0 ? 'Select alarms to change them.' : `${plural(selected.length, 'alarm')} selected`),
    selected.length > 0 && actions.filter(action => !action.shown).map(action => {
      const possible = selected.filter(a => !action.refusal(a));
      return el('button', {type: 'button', 'data-action': action.name, disabled: possible.length === 0, click: () => runAll(view, action, selected, possible)}, `${action.verb} ${count(possible.length)}`);
    }));
}
