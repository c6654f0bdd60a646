// Dead alarms, grouped by what their last errors say.

/** Groups alarms by cause, the largest group first. Numbers and ids in a cause do not make a group of its own, but a status of HTTP does. */
export function causes(alarms) {
  const groups = new Map();
  for (const alarm of alarms) {
    const cause = (alarm.last_error || 'no error is known').replace(/[0-9a-f]{8}-[0-9a-f-]{27}|\b(?![45]\d\d )\d[\d.:TZ-]*/g, '…');
    if (!groups.has(cause)) groups.set(cause, {cause, alarms: []});
    groups.get(cause).alarms.push(alarm);
  }
  return [...groups.values()].sort((a, b) => b.alarms.length - a.alarms.length);
}
