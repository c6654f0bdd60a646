package clock

// ConditionKind is the kind of condition under which a request takes effect.
type ConditionKind int8

// The kinds of conditions.
const (
	AnyRow       ConditionKind = iota // no condition
	Absent                            // the key has no row, not even a finished alarm's
	Earlier                           // a set may move a scheduled or paused alarm only to an earlier time
	Later                             // a set may move a scheduled or paused alarm only to a later time
	AtGeneration                      // the row has this generation
)

// String returns the condition's name, as a set's field "if" has it.
func (k ConditionKind) String() string {
	return [...]string{AnyRow: "", Absent: "absent", Earlier: "earlier", Later: "later", AtGeneration: "generation"}[k]
}

// Condition is a request's condition. Generation is for AtGeneration.
type Condition struct {
	Kind       ConditionKind
	Generation int64
}

// meets reports whether the row has the generation that the condition demands, if it demands one.
func (c Condition) meets(row *Alarm) bool {
	return c.Kind != AtGeneration || c.Generation == row.Generation
}
