// The URL of the console: the page and its state are in the query.

/** Returns the URL of a page with its state. The time zone of the current URL stays. Empty values are left out. */
export function href(view, state = {}) {
  const query = new URLSearchParams({view});
  for (const [name, value] of Object.entries(state)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, value);
  }
  const zone = new URLSearchParams(location.search).get('tz');
  if (zone) query.set('tz', zone);
  return `?${query}`;
}

/** Returns the state of the current URL, without page and time zone. */
export function currentState() {
  const state = Object.fromEntries(new URLSearchParams(location.search));
  delete state.view;
  delete state.tz;
  delete state.sign_in;
  return state;
}
