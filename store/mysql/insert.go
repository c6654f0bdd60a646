package mysql

import (
	"strconv"
	"strings"
)

// alarmDefaults are the columns of alarm that have a default, with its value. nil is NULL. No migration may change one,
// because older builds rely on them.
var alarmDefaults = map[string]any{
	"latest_ring_at": nil, "next_try_time": nil, "rung_at": nil, "finished_at": nil, "answered_at": nil,
	"ring_no": int64(0), "retry_times": int64(0), "in_doubt": int64(0), "ack_timeout": int64(0), "answer": int64(0),
	"delivery": int64(0), "due_rank": int64(9), "doubt_target": int64(0),
	"last_error": "", "retry_policy": "", "traceparent": "", "claim_id": "", "answered_by": "", "repeat_rule": "",
	"repeat_state": "", "past_generations": "", "destination": "", "receiver": "",
}

// withoutShared returns the parts of an INSERT INTO alarm without what all rows have in common, and the arguments that
// remain. A column with its default in all rows is left out, and a number or a plain text that all rows have stands in
// the statement. The server takes a quarter more time for all 24 columns of a set, and the driver twice the time: it
// converts and quotes each argument.
//
// The statement has an argument for each column of each row. The first value of its first row is an expression that
// ends with a line and has the argument last.
func (r *repeated) withoutShared(args []any) (repeated, []any) {
	head, list, _ := strings.Cut(strings.TrimRight(r.before, " \n"), "(")
	list, tail, _ := strings.Cut(list, ")")
	all := strings.Split(list, ",")
	bound := make([]bool, len(all)) // columns whose values remain arguments
	var columns, values []string
	for i, column := range all {
		column = strings.TrimSpace(column)
		value := valueOf(column, args[i:], len(all))
		bound[i] = value == placeholder
		if value != "" {
			columns, values = append(columns, column), append(values, value)
		}
	}
	remaining := args[:0]
	for i, arg := range args {
		if bound[i%len(all)] {
			remaining = append(remaining, arg)
		}
	}
	guard, _, _ := strings.Cut(r.first, ",\n")
	own := strings.LastIndex(guard, placeholder) // value of the first column
	return repeated{
		before: head + "(" + strings.Join(columns, ", ") + ")" + tail + " ",
		first:  guard[:own] + values[0] + guard[own+1:] + ", " + strings.Join(values[1:], ", ") + ")",
		next:   ", (" + strings.Join(values, ", ") + ")",
		after:  r.after,
	}, remaining
}

const placeholder = "?"

// valueOf returns the SQL for the value of a column in each row: a placeholder, a literal that all rows have, or
// nothing if all rows have the default. The arguments of the column begin at the first and are width apart.
func valueOf(column string, args []any, width int) string {
	value := literalOf(args[0])
	if fallback, hasDefault := alarmDefaults[column]; hasDefault && args[0] == fallback {
		value = ""
	}
	if value == placeholder {
		return value
	}
	for i := width; i < len(args); i += width {
		if args[i] != args[0] {
			return placeholder
		}
	}
	return value
}

// literalOf returns a number, or a text that needs no escapes whatever the SQL mode, as SQL. It returns a placeholder
// for other arguments.
func literalOf(arg any) string {
	switch v := arg.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case string:
		if strings.IndexFunc(v, needsQuoting) < 0 {
			return "'" + v + "'"
		}
	}
	return placeholder
}

func needsQuoting(r rune) bool {
	isPlain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune(" -_./:;,=+", r)
	return !isPlain
}
