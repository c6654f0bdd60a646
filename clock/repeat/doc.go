// Package repeat owns the rule of an alarm that rings again: its occurrences, the delay that jitter adds, the handling
// of missed and overlapping occurrences, and the conversion of a local time to an instant. It has no I/O, starts no
// goroutine and reads no clock. It imports no other package of this project. All instants are epoch milliseconds.
//
// A rule is a cron expression in a time zone, or a fixed period (Every) from an anchor. Parse validates it, Rule.Encode
// and Decode convert it to and from its stored text. A LocalTime is the time of an alarm that rings once: a date and a
// time of day in a time zone. ParseLocal validates it, LocalTime.Encode and Decode convert it.
//
// # Invariants
//
//  1. Next(after) is later than after. The result depends only on the rule, on after and on the embedded time-zone
//     data.
//  2. From, Until and Times limit the occurrences, not the rings. From and Until are inclusive. Times counts each occurrence: rung,
//     missed, skipped or failed.
//  3. RingAt is not earlier than its occurrence, and earlier than the next one. It depends only on the jitter, the
//     alarm's key, its generation and the occurrence.
//  4. Each occurrence is in exactly one Due or Overlapped: as a ring, or in a count of missed or skipped occurrences.
//  5. All nodes of one build have the same time-zone data (Data). The data of the operating system is not used.
//  6. The work of each call is bounded. A search ends after 400 years, the period of the Gregorian calendar: an
//     expression without an occurrence in 400 years never occurs, and Parse refuses it. Due reads at most maxScan
//     occurrences of a cron expression.
//
// # Cron expressions
//
// Five fields (minute, hour, day of month, month, day of week), or six with the second first. A field is a list of
// values, ranges and steps. Months and days of the week have English names of three letters; Sunday is 0 or 7. A range
// may wrap: 22-2. The day of month knows L (last day), L-3 (three days before it), 15W (the weekday next to the 15th)
// and LW (last weekday). The day of week knows FRI#3 (third Friday) and FRI#L (last Friday). @yearly, @annually,
// @monthly, @weekly, @daily, @midnight and @hourly are short forms.
//
// If the day of month and the day of week are both restricted, a day that fits one of them fits, as in crontab(5). A
// field that begins with * or ? is not restricted: */2 in one of them and FRI in the other needs both. ? stands in these
// two fields only. Parse refuses forms of other programs with the form that is meant here (crondialect.go).
//
// # Daylight saving
//
// A label is what the local clock shows. A gap is a range of labels that the local clock skips; an overlap is a range
// that it shows twice. A whole day can be a gap: Pacific/Apia had no 30 December 2011.
//
// A cron expression whose minute or hour field begins with * is an interval expression. Every other cron expression has
// fixed times. (cronie has the same distinction.) The second field has no effect on it.
//
//	                      label in a gap                     label in an overlap   example
//	interval expression   no ring for it, the next label     rings both times      */5 * * * *, 0 * * * *, 0 */6 * * *
//	fixed times           rings at the end of the gap, once  rings the first time  30 2 * * *, 0 8-18 * * *
//	local time            the end of the gap                 the first time        2026-12-24T18:00:00
//	every                 not affected: a fixed period       not affected
//
// So fixed times and local times have one rule, ring_once: the ring is at the first instant at which the local clock
// shows the label or a later one. Example: 30 2 * * * in Europe/Berlin rings at 03:00 on the day in spring. Several
// labels in one gap ring once. Interval expressions keep their pace in elapsed time.
package repeat
