// Who this page is for the server.

let known = null; // name, role, applications, token, session and expires_at of the caller; null: nobody, or anyone

/** Remembers the server's description of the caller. */
export function setCaller(described) { known = described && described.name !== null ? described : null; }

/** Reports whether this page has a token or a session. */
export function signedIn() { return known !== null; }

/** Returns the server's description of the caller, null without a token and a session. */
export function caller() { return known; }

/** Reports whether the token of this page may change nothing. */
export function readsOnly() { return known?.role === 'reader'; }
