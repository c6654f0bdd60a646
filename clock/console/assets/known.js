// The names of the known applications, for fields that take one.

import {get, Problem} from './api.js';

const most = 500;

/** Returns the names of the first 500 applications, none if they cannot be read. */
export async function knownApplications(signal) {
  try {
    const page = await get('v1/applications', {limit: most}, signal);
    return page.applications.map(a => a.application);
  } catch (problem) {
    if (problem instanceof Problem && problem.status !== 401) return [];
    throw problem;
  }
}

/** Returns that an application is not among the known ones, and what may be meant; '' if it is known, or none is given. */
export function unknownApplication(name, known) {
  if (!name || known.length === 0 || known.length === most || known.includes(name)) return '';
  const near = known.filter(other => edits(name.toLowerCase(), other.toLowerCase()) <= Math.max(1, name.length / 3)).slice(0, 3);
  return `No alarm and no setting of an application ${name} is known.${near.length > 0 ? ` Do you mean ${near.join(' or ')}?` : ''}`;
}

/** Returns how many letters are to change, to insert, to remove or to swap with their neighbours to make one text of another. */
function edits(a, b) {
  let row = Array.from({length: b.length + 1}, (_, i) => i), before = row;
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? before[j - 2] + 1 : Infinity;
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1), swapped);
    }
    [before, row] = [row, next];
  }
  return row[b.length];
}
