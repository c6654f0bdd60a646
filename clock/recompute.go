package clock

// Recompute asks that the times of an alarm are computed again, because the time-zone data has changed. No application
// asks for it.
type Recompute struct{ Key }
