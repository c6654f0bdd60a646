// The names of the known applications, for fields that take one.

import {get, Problem} from './api.js';

/** Returns the names of the first 500 applications, none if they cannot be read. */
export async function knownApplications(signal) {
  try {
    const page = await get('v1/applications', {limit: 500}, signal);
    return page.applications.map(a => a.application);
  } catch (problem) {
    if (problem instanceof Problem && problem.status !== 401) return [];
    throw problem;
  }
}
