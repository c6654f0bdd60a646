// The nodes, and the shards that they own.

import {when} from './parts.js';
import {el, replace, section, table} from './dom.js';
import {count} from './format.js';
import {get} from './api.js';
import {live} from './poll.js';

export function title() { return 'Nodes and shards'; }

export async function show(view) {
  await live(view, 5, () => get('v1/nodes', {}, view.signal), draw);
}

function draw(content, {self, database_time: time, nodes, shards}) {
  const letters = new Map(nodes.map((n, i) => [n.incarnation, letter(i)]));
  const free = shards.filter(s => !s.node);
  replace(content,
    free.length > 0 && el('p', {class: 'notice failed'}, `No node owns ${count(free.length)} shards. Their alarms wait until a node takes them; that takes some seconds.`),
    table('Nodes', [
      {head: 'Node', cell: n => [el('span', {class: 'letter'}, letters.get(n.incarnation)), ' ', n.name, n.incarnation === self && el('span', {class: 'muted'}, ' (this node)')]},
      {head: 'State', cell: nodeState},
      {head: 'Shards', class: 'number', cell: n => count(n.shards.length)},
      {head: 'Version', cell: n => n.version}, {head: 'Address', cell: n => n.address || '–'}, {head: 'Started', cell: n => when(n.started_at)},
      {head: 'Receives here', cell: n => n.applications.join(', ') || '–'},
    ], nodes),
    section('Shards', el('p', {class: 'hint'}, 'Each cell is a shard with the letter of its owner. The database’s clock: ', when(time)),
      el('ol', {class: 'shards'}, shards.map(s => el('li', {class: s.node ? '' : 'free', title: s.node ? `${s.node}, epoch ${s.epoch}` : 'no owner'}, el('span', {class: 'muted'}, String(s.shard)), ' ', s.node ? letters.get(s.incarnation) || '?' : 'none')))));
}

function letter(i) { return i < 26 ? String.fromCharCode(65 + i) : `N${i + 1}`; }

function nodeState(n) {
  const faults = [];
  if (n.name_shared) faults.push('another node has the same name');
  if (n.lacks.length > 0) faults.push(`lacks: ${n.lacks.join(', ')}`);
  if (!n.alive) return el('span', {class: 'bad'}, 'gone');
  return faults.length > 0 ? el('span', {class: 'warn'}, faults.join('; ')) : el('span', {class: 'good'}, 'alive');
}
