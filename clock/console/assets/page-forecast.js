// The load to come: how many rings are due in the next steps.

import {chart} from './chart.js';
import {applicationField} from './fields.js';
import {dueSeries} from './due.js';
import {count, instant, plural, rate, zoneLabel} from './format.js';
import {el, empty, replace, section, table} from './dom.js';
import {get, unless} from './api.js';
import {href} from './url.js';
import {knownApplications, unknownApplication} from './known.js';

const choices = [['second', 'Next minute'], ['minute', 'Next hour'], ['hour', 'Next day'], ['day', 'Next two weeks']];

export function title(state) { return state.application ? `Forecast of ${state.application}` : 'Forecast'; }

export async function show(view) {
  const {by = 'minute', application} = view.state;
  const [forecast, known, stats] = await Promise.all([
    get('v1/forecast', {by, application}, view.signal), knownApplications(view.signal), unless(503, get('v1/stats', {range: 'day'}, view.signal)),
  ]);
  const most = by === 'minute' ? mostRung(stats) : 0; // other steps are not comparable with a minute
  replace(view.body, controls(view, by, known), result(forecast, most, unknownApplication(application, known)));
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

function result(forecast, most, unknown) {
  const step = forecast.step_seconds * 1000, start = Date.parse(forecast.start);
  const total = forecast.due.reduce((a, b) => a + b, 0);
  if (total === 0) return empty('No ring is due in this time.', unknown || 'Choose a longer time, or another application.');
  const rows = forecast.due.map((n, i) => ({at: new Date(start + i * step).toISOString(), n, repeats: forecast.repeats[i]})).filter(r => r.n > 0).sort((a, b) => b.n - a.n).slice(0, 10);
  return [
    el('p', {class: 'hint'}, most > 0 ? `In the fullest minute of the last day, all applications together rang ${rate(most)} alarms per second. ` : '', `${forecast.exact ? '' : 'About '}${plural(total, 'ring')}, as the alarms are set now. ${forecast.exact ? '' : 'There are so many that the server counted some, and multiplied. '}Times in ${zoneLabel()}.${forecast.by === 'day' ? ' Days are days of UTC.' : ''}`),
    chart('Rings due in each step', {start, step, series: dueSeries(forecast, 'rings')}, {format: n => count(Math.round(n)), bars: true}),
    section('The fullest steps', table('The fullest steps', [
      {head: 'From', cell: r => instant(r.at)}, {head: 'Rings', class: 'number', cell: r => count(r.n)}, {head: 'Of them by rules', class: 'number', cell: r => count(r.repeats)}, {head: 'Per second', class: 'number', cell: r => rate(r.n / forecast.step_seconds)},
      most > 0 && {head: 'Of the fullest minute of the last day', class: 'number', cell: r => share(r.n / forecast.step_seconds / most)},
    ].filter(Boolean), rows)),
  ];
}

/** Returns a rate as a part of another one: a factor above 10. */
function share(part) {
  return part >= 10 ? `${count(Math.round(part))} ×` : `${rate(part * 100)} %`;
}
