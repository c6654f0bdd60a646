// The rings as they happen: a sample of the tries of each node that responds.

import {duration, exact} from './format.js';
import {el, empty, replace, table} from './dom.js';
import {alarmLink, applicationLink} from './parts.js';
import {get} from './api.js';
import {href} from './url.js';
import {live} from './poll.js';

const most = 200; // rows on the page

export function title(state) { return state.application ? `Live rings of ${state.application}` : 'Live rings'; }

export async function show(view) {
  const rows = []; // the newest first
  const cursors = new Map(); // by incarnation: behind a load balancer, each node responds in turn
  let last = '';
  const read = async () => {
    const page = await get('v1/rings/recent', {application: view.state.application, cursor: last}, view.signal);
    const node = page.cursor.split('.')[0];
    const seen = cursors.get(node) ?? -1;
    const news = page.tries.filter(t => t.number >= seen);
    cursors.set(node, Number(page.cursor.split('.')[1]));
    last = page.cursor;
    rows.unshift(...news.reverse());
    rows.length = Math.min(rows.length, most);
    return page.node;
  };
  await live(view, 1, read, (content, node) => draw(view, content, node, rows, cursors.size));
}

function draw(view, content, node, rows, nodes) {
  if (content.querySelector('tbody:hover, tbody:focus-within')) return; // else the row of the pointer, or of the focus, would move away
  const {application} = view.state;
  replace(content,
    application && el('p', {class: 'links'}, el('a', {href: href('rings')}, 'All applications')),
    el('p', {class: 'hint'}, `Tries of ${nodes > 1 ? `${nodes} nodes` : `the node ${node}`} since you came: at most 50 successful and 50 other ones of each second, read again every second. The list stands still while the pointer or the focus is on it; p pauses it.`),
    rows.length === 0 ? empty('No alarm has rung since you came.', 'Rings appear here within a second. A node shows its own rings alone.') : table('Live rings', columns, rows));
}

const columns = [
  {head: 'Time', cell: t => exact(t.time)},
  {head: 'Application', cell: t => applicationLink(t.application)},
  {head: 'Business id', cell: alarmLink},
  {head: 'Target', cell: t => t.target}, {head: 'Ring', class: 'number', cell: t => String(t.ring_no)},
  {head: 'After due', class: 'number', cell: t => duration((Date.parse(t.time) - Date.parse(t.due_at)) / 1000)},
  {head: 'Outcome', cell: t => el('span', {class: t.outcome === 'confirmed' ? 'good' : 'bad'}, t.outcome.replace('_', ' '), t.error && `: ${t.error}`)},
];
