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
  const rows = forecast.due.map((n, i) => ({at: at(i), n, repeats: forecast.repeats[i], largest: split && largestOf(forecast, i)})).filter(r => r.n > 0).sort((a, b) => b.n - a.n).slice(0, 10);
  const data = {start, step, stacked: split, series: split ? byApplication(forecast) : dueSeries(forecast, 'rings')};
  return [
    el('p', {class: 'hint'}, fullest > 0 ? `In the fullest minute of the last day, all applications together rang ${rate(fullest)} alarms per second. ` : '', `${forecast.exact ? '' : 'About '}${plural(total, 'ring')}, as the alarms are set now. ${forecast.exact ? '' : 'There are so many that the server counted some, and multiplied. '}${forecast.complete ? '' : `It counted up to a part of the last ${forecast.by} shown, and nothing after that. `}Times in ${zoneLabel()}.${forecast.by === 'day' ? ' Days are days of UTC.' : ''}`),
    chart(`Rings due in each ${forecast.by}`, data, {format: n => count(Math.round(n)), bars: true}),
    split && section('Applications', table('Applications', [
      {head: 'Application', cell: a => a.application ? el('a', {href: href('forecast', {by: forecast.by, application: a.application})}, a.application) : 'all others'},
      {head: 'Rings', class: 'number', cell: a => count(a.total)}, {head: 'Of all', class: 'number', cell: a => share(a.total / total)},
      {head: `Its fullest ${forecast.by}`, cell: a => instant(at(a.fullest))}, {head: 'Rings in it', class: 'number', cell: a => count(a.due[a.fullest])},
    ], totals(forecast))),
    section(`The fullest ${forecast.by}s`, table(`The fullest ${forecast.by}s`, [
      {head: 'From', cell: r => instant(r.at)}, {head: 'Rings', class: 'number', cell: r => count(r.n)}, {head: 'Of them by rules', class: 'number', cell: r => count(r.repeats)}, {head: 'Per second, on average', class: 'number', cell: r => rate(r.n / forecast.step_seconds)},
      split && {head: 'Largest application', cell: r => `${r.largest.application}, ${share(r.largest.n / r.n)}`},
      fullest > 0 && {head: 'Of the fullest minute of the last day', class: 'number', cell: r => share(r.n / forecast.step_seconds / fullest)},
    ].filter(Boolean), rows)),
  ];
}

/** Returns the rings of the largest applications, each a series, and of all others. */
function byApplication(forecast) {
  const shown = forecast.applications.slice(0, coloured);
  const series = shown.map(a => ({name: a.application, values: a.due}));
  const others = rest(forecast, shown);
  return others.some(n => n > 0) ? [...series, {name: 'all others', values: others}] : series;
}

/** Returns the rings of each step that are not of these applications. */
function rest(forecast, applications) {
  return forecast.due.map((n, i) => applications.reduce((left, a) => left - a.due[i], n));
}

/** Returns the applications with the sum of their rings and their fullest step, and a last row of all others, if there are any. */
function totals(forecast) {
  const others = {due: rest(forecast, forecast.applications)};
  return [...forecast.applications, others].map(({application, due}) => ({
    application, due, total: due.reduce((a, b) => a + b, 0), fullest: due.indexOf(due.reduce((a, b) => Math.max(a, b))),
  })).filter(a => a.total > 0);
}

/** Returns the application with the most rings in a step, with their number; all others together, if these have more than each of the largest ones. */
function largestOf(forecast, step) {
  const known = forecast.applications.map(a => ({application: a.application, n: a.due[step]}));
  const others = {application: 'all others', n: known.reduce((left, a) => left - a.n, forecast.due[step])};
  return [...known, others].reduce((a, b) => b.n > a.n ? b : a);
}

/** Returns a rate as a part of another one: a factor above 10. */
function share(part) {
  return part >= 10 ? `${count(Math.round(part))} ×` : `${rate(part * 100)} %`;
}
