package clock

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/cockroachdb/datadriven"
)

// The files of testdata have the text of what each op and each outcome does to a row: only the fields that change.
// `go test ./clock -run DataDriven -rewrite` writes what the code does now; read the difference.

// changes lists the fields of a struct that differ after, with their values then. Instants are relative to now.
func changes(before, after any, now Instant) string {
	var list []string
	addChanges(&list, "", reflect.ValueOf(before), reflect.ValueOf(after), now)
	if len(list) == 0 {
		return "no change"
	}
	return strings.Join(list, " ")
}

func addChanges(list *[]string, prefix string, before, after reflect.Value, now Instant) {
	for i := range after.NumField() {
		was, is, field := before.Field(i), after.Field(i), after.Type().Field(i)
		if !is.CanInterface() || reflect.DeepEqual(was.Interface(), is.Interface()) {
			continue
		}
		name := prefix + snakeCase(field.Name)
		if is.Kind() == reflect.Struct {
			if name += "."; field.Anonymous {
				name = prefix
			}
			addChanges(list, name, was, is, now)
			continue
		}
		text := fmt.Sprint(is.Interface())
		switch value := is.Interface().(type) {
		case Instant:
			text = relative(value, now)
		case string:
			text = fmt.Sprintf("%q", value)
		case []byte:
			text = string(value)
		}
		*list = append(*list, name+"="+text)
	}
}

// relative returns an instant as text: now, a time before or after it, or - for none.
func relative(i, now Instant) string {
	switch {
	case i == NoInstant:
		return "-"
	case i == now:
		return "now"
	case i > now:
		return "now+" + i.Sub(now).String()
	default:
		return "now-" + now.Sub(i).String()
	}
}

// snakeCase returns the name of a field as columns have it.
func snakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) && !unicode.IsUpper(rune(name[i-1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// eachLine returns the results of the lines of a command, each behind its line.
func eachLine(d *datadriven.TestData, result func(words []string) string) string {
	var b strings.Builder
	for line := range strings.Lines(d.Input) {
		fmt.Fprintf(&b, "%s: %s\n", strings.TrimSpace(line), result(strings.Fields(line)))
	}
	return b.String()
}

// duration reads a duration, which may be negative.
func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ringOf returns testRing with the changes of a command.
func ringOf(t *testing.T, d *datadriven.TestData) *Ring {
	t.Helper()
	r := testRing()
	for _, arg := range d.CmdArgs {
		value := ""
		if len(arg.Vals) > 0 {
			value = arg.Vals[0]
		}
		switch arg.Key {
		case "ack_timeout":
			r.AckTimeout = duration(t, value)
		case "at_most_once":
			r.Delivery = AtMostOnce
		case "limit":
			arg.Scan(t, 0, &r.Retry.Limit)
		case "no_limit":
			r.Retry.Limit = NoLimit
		case "latest":
			r.LatestRingAt = fateNow.Add(duration(t, value))
		case "target":
			r.Target, _ = ParseTargetKind(value)
		case "in_doubt":
			r.Before.InDoubt = true
		case "unacknowledged":
			r.Before.State = Ringing
		case "claimed": // by a node that has died with its two-phase claim
			r.Before.State, r.Before.RungAt = Ringing, NoInstant
		case "no_error":
			r.Before.LastError = ""
		default:
			d.Fatalf(t, "unknown argument %s", arg.Key)
		}
	}
	return r
}

// outcomeOf reads an outcome: its kind, then its other fields.
func outcomeOf(t *testing.T, words []string) (o Outcome) {
	t.Helper()
	for kind := Confirmed; kind <= Awaited; kind++ {
		if kind.String() == words[0] {
			o.Kind = kind
		}
	}
	if o.Kind == 0 {
		t.Fatalf("unknown outcome %s", words[0])
	}
	for _, word := range words[1:] {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "acknowledged":
			o.Acknowledged = true
		case "final":
			o.Final = true
		case "unstored":
			o.Unstored = true
		case "counted":
			o.Counted = true
		case "retry_after":
			o.RetryAfter = duration(t, value)
		case "reason":
			o.Reason = value
		default:
			t.Fatalf("unknown word %s", word)
		}
	}
	return o
}

func TestDataDrivenFates(t *testing.T) {
	datadriven.RunTest(t, "testdata/fate", func(t *testing.T, d *datadriven.TestData) string {
		r := ringOf(t, d)
		return eachLine(d, func(words []string) string {
			o := outcomeOf(t, words)
			fate := FateOf(r, o, fateNow)
			if d.Cmd == "late" {
				fate = LateFateOf(r, o, fateNow)
			}
			if fate.Outcome != o {
				t.Errorf("the outcome %+v became %+v", o, fate.Outcome)
			}
			return changes(r.Before, fate.RingRow, fateNow)
		})
	})
}

// opOf reads an op on the alarm of tableRow.
func opOf(t *testing.T, words []string) Op {
	t.Helper()
	key, condition := Key{"shop", "4711"}, Condition{}
	for _, word := range words {
		switch name, value, _ := strings.Cut(word, "="); {
		case name != "if":
		case value == "absent":
			condition.Kind = Absent
		case value == "earlier":
			condition.Kind = Earlier
		case value == "later":
			condition.Kind = Later
		default:
			condition.Kind = AtGeneration
			if _, err := fmt.Sscan(value, &condition.Generation); err != nil {
				t.Fatal(err)
			}
		}
	}
	answer := func(kind AnswerKind) Op {
		return Op{Answer: &Answer{Key: key, Ring: RingID{AlarmID: 7, Generation: tableGeneration, RingNo: 1}, Kind: kind, By: "worker"}}
	}
	switch words[0] {
	case "set":
		set := tableSet(words[1])
		set.If = condition
		return Op{Set: set}
	case "cancel":
		return Op{Cancel: &Cancel{Key: key, If: condition}}
	case "kick":
		return Op{Kick: &Kick{Key: key, If: condition}}
	case "discard":
		return Op{Discard: &Discard{Key: key, If: condition}}
	case "pause":
		return Op{Pause: &Pause{Key: key, If: condition}}
	case "resume":
		return Op{Resume: &Resume{Key: key, If: condition}}
	case "trigger":
		return Op{Trigger: &Trigger{Key: key, If: condition}}
	case "ack":
		return answer(Ack)
	case "release":
		return answer(Release)
	case "bury":
		return answer(Bury)
	case "touch":
		return answer(Touch)
	}
	t.Fatalf("unknown op %s", words[0])
	return Op{}
}

func TestDataDrivenDecisions(t *testing.T) {
	datadriven.RunTest(t, "testdata/decide", func(t *testing.T, d *datadriven.TestData) string {
		name := strings.ReplaceAll(d.Cmd, "_", " ")
		return eachLine(d, func(words []string) string {
			row := tableRow(name)
			decision := opOf(t, words).Decide(row, tableNow)
			checkUnharmed(t, row, tableRow(name))
			if e, is := decision.Err.(*Error); is {
				return fmt.Sprintf("%s, %s: %s", decision.Verdict, e.Code, e.Detail)
			}
			before := Alarm{}
			if row != nil {
				before = *row
			}
			text := fmt.Sprintf("%s, %s", decision.Verdict, changes(before, decision.Alarm, tableNow))
			if a := decision.Attempt; a != nil {
				text += fmt.Sprintf(", attempt %d %s", a.RingNo, a.Outcome)
			}
			return text
		})
	})
}
