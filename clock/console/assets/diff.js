// The differences of two texts, line by line.

import {el} from './dom.js';

/** Returns the lines of both texts in order, each with a sign: "-" is only in the first, "+" only in the second, " " in both. */
function diff(first, second) {
  const a = first.split('\n'), b = second.split('\n');
  const common = Array.from({length: a.length + 1}, () => new Array(b.length + 1).fill(0)); // the longest common lines from i and j on
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  }
  const lines = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push({sign: ' ', text: a[i]}), i++, j++;
    else if (j === b.length || i < a.length && common[i + 1][j] >= common[i][j + 1]) lines.push({sign: '-', text: a[i++]});
    else lines.push({sign: '+', text: b[j++]});
  }
  return lines;
}

/** Returns an element with the differences of two texts. */
export function diffView(first, second) {
  return el('pre', {class: 'diff', tabindex: '0', 'aria-label': 'What changes'},
    diff(first, second).map(({sign, text}) => el({'-': 'del', '+': 'ins', ' ': 'span'}[sign], {}, `${sign} ${text}\n`)));
}
