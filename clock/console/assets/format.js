// The only place that formats numbers and times.

const numbers = new Intl.NumberFormat('en');
const stored = 'clockd.zone';
const local = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

let zone = 'UTC';
let formats = formatsOf(zone);
let ahead = 0; // milliseconds by which the server's clock is ahead of this machine's

function formatsOf(name) {
  const options = {timeZone: name, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit'};
  return {parts: new Intl.DateTimeFormat('en', options), offset: new Intl.DateTimeFormat('en', {timeZone: name, timeZoneName: 'longOffset'})};
}

/** Returns the names of all time zones, the most useful first. */
export function zones() {
  return [...new Set(['UTC', local, ...Intl.supportedValuesOf('timeZone')])];
}

/** Returns the page's time zone. */
export function zoneName() { return zone; }

/** Chooses the page's time zone: the one of the URL, the one that the person chose before, or UTC. Unknown names are ignored. */
export function useZone(inURL) {
  for (const name of [inURL, remembered(), 'UTC']) {
    if (!name) continue;
    try {
      formats = formatsOf(name);
      zone = name;
      return;
    } catch { /* an unknown name */ }
  }
}

function remembered() {
  try { return localStorage.getItem(stored); } catch { return null; }
}

/** Remembers the time zone for later visits. */
export function rememberZone(name) {
  try { localStorage.setItem(stored, name); } catch { /* storage is off */ }
}

/** Notes the server's time, from the header Date of a response. */
export function noteServerTime(header) {
  const difference = Date.parse(header) + 500 - Date.now();
  if (!Number.isNaN(difference)) ahead = Math.abs(difference) > 2000 ? difference : 0;
}

/** Returns the server's time in milliseconds, within two seconds. */
export function now() { return Date.now() + ahead; }

/** Returns a count. */
export function count(n) { return numbers.format(n); }

/** Returns a number of things: plural(1, 'alarm') is "1 alarm". */
export function plural(n, thing, things = `${thing}s`) { return `${count(n)} ${n === 1 ? thing : things}`; }

/** Returns a rate per second. */
export function rate(perSecond) {
  if (perSecond === 0) return '0';
  if (perSecond >= 100) return count(Math.round(perSecond));
  return String(Number(perSecond.toPrecision(2)));
}

/** Returns a duration that is given in seconds. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 0.001) return '0 ms';
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  let rest = Math.round(seconds);
  const first = units.findIndex(([, size]) => rest >= size);
  const parts = [];
  for (const [unit, size] of units.slice(first, first + 2)) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0) parts.push(`${n} ${unit}`);
  }
  return parts.join(' ');
}

/** Returns how far an instant is from now: "in 5 min", "3 h ago". */
export function relative(iso) {
  const seconds = (Date.parse(iso) - now()) / 1000;
  if (Math.abs(seconds) < 1) return 'now';
  return seconds > 0 ? `in ${duration(Math.floor(seconds))}` : `${duration(Math.floor(-seconds))} ago`;
}

/** Returns an instant in the page's time zone, to the second. */
export function instant(iso) {
  return iso ? wall(Date.parse(iso)) : '–';
}

/** Returns an instant in the page's time zone, to the millisecond. */
export function exact(iso) {
  return iso ? `${wall(Date.parse(iso))}.${iso.slice(20, 23)}` : '–';
}

/** Returns the time of day of an instant, which is given in milliseconds. */
export function timeOfDay(ms, withSeconds) {
  return wall(ms).slice(11, withSeconds ? 19 : 16);
}

/** Returns the date and the time to the minute of an instant, which is given in milliseconds. */
export function dateAndTime(ms) { return wall(ms).slice(0, 16); }

function wall(ms) {
  const p = Object.fromEntries(formats.parts.formatToParts(ms).map(part => [part.type, part.value]));
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second}`;
}

/** Returns the page's time zone with its offset at an instant. */
export function zoneLabel(ms = now()) {
  if (zone === 'UTC') return 'UTC';
  const offset = formats.offset.formatToParts(ms).find(p => p.type === 'timeZoneName').value;
  return `${zone} (${offset.replace('GMT', 'UTC')})`;
}

/** Returns the value of a field for date and time. */
export function fieldOf(iso) { return Number.isNaN(Date.parse(iso)) ? '' : wall(Date.parse(iso)).replace(' ', 'T'); }

/** Returns the instant of a field for date and time, which has a local time of the page's zone; null if it is empty. */
export function fieldInstant(text) {
  if (!text) return null;
  const label = Date.parse(`${text.length === 16 ? `${text}:00` : text}Z`);
  let guess = label;
  for (let i = 0; i < 3; i++) guess += label - Date.parse(`${wall(guess).replace(' ', 'T')}Z`);
  return new Date(guess).toISOString();
}
