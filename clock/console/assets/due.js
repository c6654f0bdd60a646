// The series of a chart of rings that are due.

/** Returns all rings of a forecast, and if there are some those of repeating alarms after their next ring. */
export function dueSeries(forecast, name) {
  const series = [{name, values: forecast.due}];
  return forecast.repeats.some(n => n > 0) ? [...series, {name: 'by rules of repeating alarms', values: forecast.repeats}] : series;
}
