// The access tokens, and the sessions of the console.

import {act, get} from './api.js';
import {caller} from './caller.js';
import {confirm} from './dialog.js';
import {copyButton, pager, when} from './parts.js';
import {clear, failed, notify} from './notice.js';
import {el, empty, replace, section, table} from './dom.js';
import {now} from './format.js';

export function title() { return 'Tokens and sessions'; }

export async function show(view) {
  const {cursor} = view.state;
  const page = await get('v1/tokens', {cursor, limit: 1000}, view.signal);
  const tokens = page.tokens.filter(t => !t.session_of), sessions = page.tokens.filter(t => t.session_of);
  replace(view.body,
    section('Tokens', tokens.length === 0 ? empty('No access token exists.', el('code', {}, 'clockd token create NAME --role admin'), ' makes one, on the database.') : table('Tokens', tokenColumns, tokens),
      tokens.length > 0 && el('p', {class: 'hint'}, el('code', {}, 'clockd token'), ' makes, rotates and revokes tokens, on the database.')),
    section('Sessions', sessions.length === 0 ? empty('Nobody has signed in to the console.') : table('Sessions', [...sessionColumns, {head: 'Action', cell: s => end(view, s)}], sessions)),
    pager('tokens', {cursor}, page, ['First tokens', 'Further tokens']));
}

const tokenColumns = [
  {head: 'Name', cell: t => t.name},
  {head: 'Role', cell: t => t.role},
  {head: 'Applications', cell: t => t.applications.join(', ')},
  {head: 'State', cell: state},
  {head: 'Last used', cell: t => when(t.last_used_at, 'not recorded yet')},
  {head: 'Created', cell: t => [when(t.created_at), el('span', {class: 'muted'}, ` by ${t.created_by}`)]},
  {head: 'Id', cell: t => [el('code', {}, t.id), ' ', t.state === 'valid' && copyButton('Copy: revoke', `clockd token revoke ${t.id}`)]},
];

const sessionColumns = [
  {head: 'Name', cell: s => [s.name, s.id === caller()?.session && el('span', {class: 'muted'}, ' (this one)')]},
  {head: 'Role', cell: s => s.role},
  {head: 'State', cell: state},
  {head: 'Last used', cell: s => when(s.last_used_at, 'not recorded yet')},
  {head: 'Started', cell: s => when(s.created_at)},
];

function state(token) {
  const colour = {valid: 'good', unreadable: 'bad'}[token.state] || 'muted';
  return [el('span', {class: colour}, token.state), token.revoked_at ? [' ', when(token.revoked_at)] : token.expires_at && [token.state === 'valid' ? ', until ' : ' ', when(token.expires_at)],
    token.unreadable && el('span', {class: 'error-text'}, ` ${token.unreadable}`),
    token.state === 'valid' && token.old_secret_until && Date.parse(token.old_secret_until) > now() && [', old secret until ', when(token.old_secret_until)]];
}

function end(view, session) {
  return session.state === 'valid' && el('button', {type: 'button', class: 'small', 'data-action': 'end', click: async () => {
    clear();
    const sure = await confirm({title: 'End a session', body: el('p', {}, 'The session of ', el('strong', {}, session.name), ', which started ', when(session.created_at), ', ends at every node within 2 s. Its token stays valid.'), verb: 'End the session'});
    if (!sure) return;
    try {
      await act('DELETE', `v1/sessions/${encodeURIComponent(session.id)}`, {signal: view.signal});
    } catch (problem) {
      return failed(view, 'The session was not ended', problem);
    }
    notify('done', `The session of ${session.name} has ended.`);
    view.reload();
  }}, 'End');
}
