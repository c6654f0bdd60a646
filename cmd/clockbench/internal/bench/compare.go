package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// The verdicts of a comparison about a figure.
const (
	changeBetter = "better"
	changeWorse  = "worse"
	changeSame   = "same"
)

// pair is one figure of two reports.
type pair struct{ before, now *Figure }

// Compare prints how the figures changed from an earlier report to a later one, and how the circumstances differ.
func Compare(out io.Writer, before, now *Report) error {
	differ, err := differences(before, now)
	if err != nil {
		return err
	}
	pairs, gone, added := match(before.Figures, now.Figures)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) } // Flush returns the error
	line("against clockd %s, measured %s\n", before.Version, before.Started.Format(time.RFC3339))
	for _, d := range differ {
		line("WARNING: not the same %s\n", d)
	}
	line("\nWHAT\tBEFORE\tNOW\tRATIO\tOF CEILING BEFORE\tNOW\tCHANGE\n")
	for _, p := range pairs {
		was, is := p.ofCeiling()
		line("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.now.What, number(p.before.Value, p.before.Unit),
			number(p.now.Value, p.now.Unit), p.ratio(), was, is, p.change())
	}
	line("\nCHANGE: whether all rounds of one run are better than all rounds of the other. Runs with the same ceiling are compared by their\n" +
		"ratios to it. Blank if neither run has several rounds.\n")
	for _, f := range gone {
		line("not measured now: %s\n", f.What)
	}
	for _, f := range added {
		line("not measured before: %s\n", f.What)
	}
	return table.Flush()
}

// match pairs figures by stage, name, unit and ceiling. It then pairs the remaining figures without the ceiling, which
// may have changed. Figures without a partner are gone or added.
func match(before, now []Figure) (pairs []pair, gone, added []*Figure) {
	left := make([]*Figure, len(before))
	for i := range before {
		left[i] = &before[i]
	}
	partners := make([]*Figure, len(now))
	for _, sameCeiling := range []bool{true, false} {
		for i := range now {
			if partners[i] != nil {
				continue
			}
			at := slices.IndexFunc(left, func(f *Figure) bool {
				return f.Stage == now[i].Stage && f.What == now[i].What && f.Unit == now[i].Unit &&
					(!sameCeiling || f.CeilingWhat == now[i].CeilingWhat)
			})
			if at >= 0 {
				partners[i] = left[at]
				left = slices.Delete(left, at, at+1)
			}
		}
	}
	for i, partner := range partners {
		if partner == nil {
			added = append(added, &now[i])
		} else {
			pairs = append(pairs, pair{before: partner, now: &now[i]})
		}
	}
	return pairs, left, added
}

// ratio returns the value now divided by the value before; "" if the value before is 0.
func (p pair) ratio() string {
	if p.before.Value == 0 {
		return ""
	}
	return strconv.FormatFloat(p.now.Value/p.before.Value, 'f', 2, 64)
}

// byCeiling reports whether both figures have the same ceiling. Other work of the machine affects a figure and its
// ceiling alike, so then the ratios are compared.
func (p pair) byCeiling() bool {
	return p.before.Ratio != nil && p.now.Ratio != nil && p.before.CeilingWhat == p.now.CeilingWhat
}

// ofCeiling returns the ratios to the ceiling; "" if the ceilings differ.
func (p pair) ofCeiling() (before, now string) {
	if !p.byCeiling() {
		return "", ""
	}
	return p.before.ratio(), p.now.ratio()
}

// change says whether all rounds of one run are better than all rounds of the other run. It returns "" if neither run
// has several rounds.
func (p pair) change() string {
	before, now := p.before.rounds(p.byCeiling()), p.now.rounds(p.byCeiling())
	if len(before) < 2 && len(now) < 2 {
		return ""
	}
	less, more := changeBetter, changeWorse
	if p.now.Unit == perSecond {
		less, more = more, less
	}
	switch {
	case slices.Max(now) < slices.Min(before):
		return less
	case slices.Min(now) > slices.Max(before):
		return more
	default:
		return changeSame
	}
}

// rounds returns the results of the rounds, or the single value. With byCeiling it divides each result by the ceiling
// of its round.
func (f Figure) rounds(byCeiling bool) samples {
	values := f.Samples
	if len(values) == 0 {
		values = samples{f.Value}
	}
	if !byCeiling {
		return values
	}
	parts := make(samples, len(values))
	for i, value := range values {
		ceiling := *f.Ceiling
		if len(f.Ceilings) == len(values) {
			ceiling = f.Ceilings[i]
		}
		parts[i] = value / ceiling
	}
	return parts
}

// differences lists the differing circumstances of two reports: host, servers and plan.
func differences(before, now *Report) (all []string, err error) {
	was, err := before.circumstances()
	if err != nil {
		return nil, err
	}
	is, err := now.circumstances()
	if err != nil {
		return nil, err
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(was)), maps.Keys(is))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if was[name] != is[name] {
			all = append(all, fmt.Sprintf("%s: %s, was %s", name, orNothing(is[name]), orNothing(was[name])))
		}
	}
	return all, nil
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// circumstances returns the values that two comparable reports have in common, by name.
func (r *Report) circumstances() (map[string]string, error) {
	all := map[string]string{"database": r.Database, "target": r.Target}
	for _, part := range []struct {
		name  string
		value any
	}{{"host", r.Host}, {"plan", r.Plan}} {
		text, err := json.Marshal(part.value)
		if err != nil {
			return nil, err
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			return nil, err
		}
		for name, value := range fields {
			all[part.name+", "+strings.ReplaceAll(name, "_", " ")] = string(value)
		}
	}
	return all, nil
}
