// The load to come: how many rings are due in the next steps.

import {chart} from './chart.js';
import {applicationField} from './fields.js';
import {dueSeries} from './due.js';
import {count, instant, plural, rate, zoneLabel} from './format.js';
import {el, empty, pending, replace, section, table} from './dom.js';
import {get, unless} from './api.js';
import {href} from './url.js';
import {knownApplications, unknownApplication} from './known.js';

const most = 20; // applications with numbers of their own
const coloured = 5; // of them, in the chart

const choices = [['second', 'Next minute'], ['minute', 'Next hour'], ['hour', 'Next day'], ['day', 'Next two weeks']];

export function title(state) { return state.application ? `Forecast of ${state.application}` : 'Forecast'; }

export async function show(view) {
  const {by = 'minute', application} = view.state;
  const known = await knownApplications(view.signal);
  view.result = pending();
  replace(view.body, controls(view, by, known), view.result);
  const [forecast, stats] = await Promise.all([
    get('v1/forecast', {by, application, applications: application ? null : most}, view.signal), unless(503, get('v1/stats', {range: 'day'}, view.signal)),
  ]);
  const fullest = by === 'minute' ? mostRung(stats) : 0; // other steps are not comparable with a minute
  replace(view.result, result(forecast, fullest, unknownApplication(application, known)));
}

/** Returns the largest rate of rings in a minute of the last day; 0 if none is known. */
function mostRung(stats) {
  return stats ? Math.max(...stats.rings) / stats.step_seconds : 0;
}

function controls(view, by, known) {
  const {application} = view.state;
  return [
    el('p', {class: 'links'}, choices.map(([value, name]) => el('a', {href: href('forecast', {by: value, application}), 'aria-current': value === by ? 'true' : null}, name))),
    el('form', {class: 'filter', submit: event => {
      event.preventDefault();
      view.go('forecast', {by: view.state.by, application: new FormData(event.target).get('application').trim()});
    }},
    applicationField(application, known),
    el('p', {class: 'buttons'}, el('button', {type: 'submit'}, 'Show'))),
  ];
}

function result(forecast, fullest, unknown) {
  const step = forecast.step_seconds * 1000, start = Date.parse(forecast.start);
  const total = forecast.due.reduce((a, b) => a + b, 0);
  if (total === 0) return empty(forecast.complete ? 'No ring is due in this time.' : 'Other applications have too many alarms in this time for the server to count.', unknown || 'Choose a longer time, or another application.');
  const at = i => new Date(start + i * step).toISOString();
  const split = forecast.applications.length > 1;
  const all = parts(forecast, forecast.applications);
  const rows = forecast.due.map((n, i) => ({at: at(i), step: i, n, repeats: forecast.repeats[i]})).filter(r => r.n > 0).sort((a, b) => b.n - a.n).slice(0, 10);
  const data = {start, step, stacked: split, series: split ? byApplication(forecast) : dueSeries(forecast, 'rings')};
  return [
    el('p', {class: 'hint'}, fullest > 0 ? `In the fullest minute of the last day, all applications together rang ${rate(fullest)} alarms per second. ` : '', `${forecast.exact ? '' : 'About '}${plural(total, 'ring')}, as the alarms are set now. ${forecast.exact ? '' : 'There are so many that the server counted some, and multiplied. '}${forecast.complete ? '' : `It counted up to a part of the last ${forecast.by} shown, and nothing after that. `}Times in ${zoneLabel()}.${forecast.by === 'day' ? ' Days are days of UTC.' : ''}`),
    chart(`Rings due in each ${forecast.by}`, data, {format: n => count(Math.round(n)), bars: true}),
    split && section('Applications', table('Applications', [
      {head: 'Application', cell: a => a.link ? el('a', {href: href('forecast', {by: forecast.by, application: a.application})}, a.application) : a.application},
      {head: 'Rings', class: 'number', cell: a => count(a.total)}, {head: 'Of all', class: 'number', cell: a => share(a.total / total)},
      {head: `Its fullest ${forecast.by}`, cell: a => instant(at(a.fullest))}, {head: 'Rings in it', class: 'number', cell: a => count(a.due[a.fullest])},
    ], all.map(summed).filter(a => a.total > 0))),
    section(`The fullest ${forecast.by}s`, table(`The fullest ${forecast.by}s`, [
      {head: 'From', cell: r => instant(r.at)}, {head: 'Rings', class: 'number', cell: r => count(r.n)}, {head: 'Of them by rules', class: 'number', cell: r => count(r.repeats)}, {head: 'Per second, on average', class: 'number', cell: r => rate(r.n / forecast.step_seconds)},
      split && {head: 'Largest application', cell: r => largestShare(r, all)},
      fullest > 0 && {head: 'Of the fullest minute of the last day', class: 'number', cell: r => share(r.n / forecast.step_seconds / fullest)},
    ].filter(Boolean), rows)),
  ];
}

/** Returns the applications with their rings in each step, and at last all others together, which have no link. */
function parts(forecast, applications) {
  const others = forecast.due.map((n, i) => applications.reduce((left, a) => left - a.due[i], n));
  return [...applications.map(a => ({...a, link: true})), {application: 'all others', due: others}];
}

/** Returns the rings of the largest applications and of all others, each a series. */
function byApplication(forecast) {
  return parts(forecast, forecast.applications.slice(0, coloured)).filter(a => a.link || a.due.some(n => n > 0)).map(a => ({name: a.application, values: a.due}));
}

/** Returns a part with the sum of its rings and its fullest step. */
function summed(part) {
  return {...part, total: part.due.reduce((a, b) => a + b, 0), fullest: part.due.indexOf(part.due.reduce((a, b) => Math.max(a, b)))};
}

/** Returns the name of the largest part of a step, and how much of the step it has. */
function largestShare({step, n}, all) {
  const largest = all.reduce((a, b) => b.due[step] > a.due[step] ? b : a);
  return `${largest.application}, ${share(largest.due[step] / n)}`;
}

/** Returns a rate as a part of another one: a factor above 10. */
function share(part) {
  return part >= 10 ? `${count(Math.round(part))} ×` : `${rate(part * 100)} %`;
}
