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

// What a comparison says of a figure.
const (
	changeBetter = "better"
	changeWorse  = "worse"
	changeSame   = "same"
)

// pair is one figure of two reports.
type pair struct{ before, now *Figure }

// Compare prints what has changed from an earlier report to a later one, and what else they differ in.
func Compare(out io.Writer, before, now *Report) error {
	differ, err := differences(before, now)
	if err != nil {
		return err
	}
	pairs, gone, added := match(before.Figures, now.Figures)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) } // Flush tells what failed
	line("against clockd %s, measured %s\n", before.Version, before.Started.Format(time.RFC3339))
	for _, d := range differ {
		line("WARNING: not the same %s\n", d)
	}
	line("\nWHAT\tBEFORE\tNOW\tRATIO\tOF CEILING BEFORE\tNOW\tCHANGE\n")
	for _, p := range pairs {
		was, is := p.ofCeiling()
		line("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.now.What, number(p.before.Value, p.before.Unit), number(p.now.Value, p.now.Unit), p.ratio(), was, is, p.change())
	}
	line("\nCHANGE: whether all rounds of one run are on the same side of all rounds of the other, in parts of the ceiling where both\n" +
		"have the same; blank where neither has rounds to tell noise by.\n")
	for _, f := range gone {
		line("not measured now: %s\n", f.What)
	}
	for _, f := range added {
		line("not measured before: %s\n", f.What)
	}
	return table.Flush()
}

// match pairs figures by stage, name and ceiling, and what has got another ceiling without that. What is left over of either
// has gone or was added.
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
				return f.Stage == now[i].Stage && f.What == now[i].What && f.Unit == now[i].Unit && (!sameCeiling || f.CeilingWhat == now[i].CeilingWhat)
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

// ratio returns now by before; empty where there was nothing.
func (p pair) ratio() string {
	if p.before.Value == 0 {
		return ""
	}
	return strconv.FormatFloat(p.now.Value/p.before.Value, 'f', 2, 64)
}

// byCeiling tells whether both are beside the same ceiling, which has felt what the machine's other work did to them.
func (p pair) byCeiling() bool {
	return p.before.Ratio != nil && p.now.Ratio != nil && p.before.CeilingWhat == p.now.CeilingWhat
}

// ofCeiling returns the ratios to the ceiling; empty where it is not the same.
func (p pair) ofCeiling() (before, now string) {
	if !p.byCeiling() {
		return "", ""
	}
	return p.before.ratio(), p.now.ratio()
}

// change says whether all rounds of one are on the same side of all rounds of the other; empty where neither has rounds.
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

// rounds returns the results of the rounds, or the one there is; divided by those of the ceiling if wanted.
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

// differences says what was measured on, and how much, where that is not the same.
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

// circumstances returns what a report must have in common with another to be compared with it, by names.
func (r *Report) circumstances() (map[string]string, error) {
	all := map[string]string{"database": r.Database, "target": r.Target}
	for _, part := range []struct {
		name string
		of   any
	}{{"host", r.Host}, {"plan", r.Plan}} {
		text, err := json.Marshal(part.of)
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
