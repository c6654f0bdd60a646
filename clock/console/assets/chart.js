// A chart of lines over time, in SVG.

import {el, replace, svg} from './dom.js';
import {dateAndTime, timeOfDay} from './format.js';

const day = 86_400_000;
const height = 190, left = 76, right = 12, top = 10, bottom = 24;

/** Returns a chart. data has start and step in milliseconds, and series of {name, values}; null is a gap. format formats a value. With log the scale is
 * logarithmic, and lowest is its lowest value. With bars each value is a bar from zero, and a later series is a part
 * of the first one; or they stand one upon the other, if the data is stacked. */
export function chart(title, data, {format, log = false, lowest = 0, bars = false}) {
  const length = data.series[0].values.length;
  const drawn = data.stacked ? stacked(data.series) : data.series.map((s, n) => ({values: s.values, n}));
  const canvas = svg('svg', {class: 'chart', role: 'img', 'aria-label': summary(title, data, format), tabindex: '0', height});
  const readout = el('p', {class: 'readout'});
  let width = 0, marked = null;
  const scale = scaleOf(drawn, log ? lowest : 0, bars);
  const span = () => width - left - right;
  const x = i => left + (bars ? (i + 0.5) / length : i / Math.max(1, length - 1)) * span();
  const y = v => top + (1 - scale.part(v)) * (height - top - bottom);
  const mark = svg('line', {class: 'mark', y1: top, y2: height - bottom});

  const draw = () => {
    canvas.setAttribute('viewBox', `0 0 ${width} ${height}`);
    replace(canvas,
      scale.ticks.map(t => [svg('line', {class: 'grid', x1: left, x2: width - right, y1: y(t), y2: y(t)}), svg('text', {x: left - 6, y: y(t) + 4, 'text-anchor': 'end'}, format(t))]),
      timeTicks(data, width).map(i => svg('text', {x: x(i), y: height - 6, 'text-anchor': 'middle'}, tickOf(data, i))),
      drawn.map(({values, n}) => bars ? columns(values, x, y, width, n) : [svg('path', {class: `line line-${n + 1}`, d: path(values, x, y)}), svg('path', {class: `line dots line-${n + 1}`, d: dots(values, x, y)})]), mark);
    point(marked);
  };
  const point = i => {
    marked = i;
    const at = i ?? length - 1;
    mark.setAttribute('visibility', i === null ? 'hidden' : 'visible');
    mark.setAttribute('x1', x(at));
    mark.setAttribute('x2', x(at));
    replace(readout, el('span', {class: 'muted'}, begin(data, at)),
      data.series.map((s, n) => el('span', {class: `legend legend-${n + 1}`}, `${s.name} ${s.values[at] === null ? '–' : format(s.values[at])}`)));
  };
  const move = i => point(Math.max(0, Math.min(length - 1, i)));
  canvas.addEventListener('pointermove', event => move(bars ? Math.floor((event.offsetX - left) / span() * length) : Math.round((event.offsetX - left) / span() * (length - 1))));
  canvas.addEventListener('pointerleave', () => point(null));
  canvas.addEventListener('keydown', event => {
    if (event.key === 'ArrowLeft') move((marked ?? length) - 1);
    else if (event.key === 'ArrowRight') move((marked ?? length - 2) + 1);
    else return;
    event.preventDefault();
  });
  new ResizeObserver(([entry]) => {
    width = Math.max(240, entry.contentRect.width);
    draw();
  }).observe(canvas);
  return el('figure', {class: 'card'}, el('figcaption', {}, el('h2', {}, title), readout), canvas);
}

/** Returns what a reader who does not see the chart needs. */
function summary(title, data, format) {
  const parts = data.series.map(s => {
    const known = s.values.filter(v => v !== null);
    return known.length === 0 ? `${s.name}: no values` : `${s.name}: last ${format(known.at(-1))}, largest ${format(known.reduce((a, b) => Math.max(a, b)))}`;
  });
  return `${title}. ${parts.join('; ')}. Arrow keys read single values.`;
}

/** Returns the series with the sums of their values and all before, the last one first, as they are drawn. n is the number of the series. */
function stacked(series) {
  let sums = series[0].values.map(() => 0);
  return series.map((s, n) => {
    sums = sums.map((sum, i) => sum + s.values[i]);
    return {values: sums, n};
  }).reverse();
}

/** Returns the scale: logarithmic from lowest, or linear if that is 0. whole: the values are whole numbers. */
function scaleOf(drawn, lowest, whole) {
  const largest = drawn.reduce((most, s) => s.values.reduce((a, b) => Math.max(a, b ?? 0), most), 0);
  return lowest > 0 ? logarithmic(largest, lowest) : linear(largest, whole);
}

function linear(largest, whole) {
  const rough = (largest || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(whole ? 1 : 0, [1, 2, 5, 10].map(n => n * power).find(n => n >= rough));
  const end = Math.ceil((largest || 1) / step) * step;
  const ticks = Array.from({length: Math.round(end / step) + 1}, (_, i) => i * step);
  return {part: v => v / end, ticks};
}

function logarithmic(largest, lowest) {
  const from = Math.log10(lowest);
  const to = Math.max(from + 2, Math.ceil(Math.log10(Math.max(largest, lowest))));
  const ticks = Array.from({length: Math.round(to - from) + 1}, (_, i) => 10 ** (from + i));
  return {part: v => (Math.log10(Math.max(v, lowest)) - from) / (to - from), ticks};
}

function timeTicks(data, width) {
  const length = data.series[0].values.length;
  const wanted = Math.max(2, Math.floor(width / 110));
  const minutes = [1, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720].find(m => length * data.step / 60000 / m <= wanted) || 1440;
  const every = minutes * 60000;
  const first = Math.ceil(data.start / every) * every;
  const ticks = [];
  for (let at = first; at < data.start + length * data.step; at += every) {
    const i = (at - data.start) / data.step;
    if (i > length * 0.02 && i < length * 0.98) ticks.push(i);
  }
  return ticks;
}

/** Returns the begin of a step in words. */
function begin(data, i) {
  const at = data.start + i * data.step;
  return data.step < day ? timeOfDay(at, true) : dateAndTime(at);
}

/** Returns the text below a step: short. */
function tickOf(data, i) { return data.step < day ? begin(data, i).slice(0, 5) : begin(data, i).slice(5, 10); }

/** Returns the path of a line. A null ends the line. */
function path(values, x, y) {
  let d = '', open = false;
  values.forEach((v, i) => {
    if (v === null) { open = false; return; }
    d += `${open ? 'L' : 'M'}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
    open = true;
  });
  return d;
}

/** Returns the path of the values between two gaps, which make no line. */
function dots(values, x, y) {
  const alone = i => values[i] !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null;
  return values.map((v, i) => alone(i) ? `M${x(i).toFixed(1)} ${y(v).toFixed(1)}h0.01` : '').join('');
}

/** Returns the bars of the values. */
function columns(values, x, y, width, n) {
  const wide = Math.max(1, (width - left - right) / values.length * 0.7);
  return values.map((v, i) => v > 0 && svg('rect', {class: `bar bar-${n + 1}`, x: x(i) - wide / 2, y: y(v), width: wide, height: Math.max(1, y(0) - y(v))}));
}
