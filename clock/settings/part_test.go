package settings_test

import (
	"cmp"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// loft is a part with a field of each kind.
type loft struct {
	Place string
	Note  string
	Size  size
	Wait  time.Duration
	Birds int
	Rings map[string]string
	Seals []seal

	AlarmFields settings.Patterns
}

// The fields of a loft that an alarm may bring itself.
var (
	place = settings.Text(settings.FieldInfo{Name: "place", Required: true, Max: 10, Example: "roof"},
		func(l *loft) *string { return &l.Place }, func(place string) *settings.Fault {
			if strings.Contains(place, "cat") {
				return settings.Wrong("must have no cat")
			}
			return nil
		})
	rings = settings.Texts(settings.FieldInfo{Name: "rings"}, func(l *loft) *map[string]string { return &l.Rings },
		func(rings map[string]string) *settings.Fault {
			if len(rings) > 2 {
				return settings.TooMuch("must be at most %d", 2)
			}
			return nil
		}, func(rings map[string]string, name string) *settings.Fault {
			if rings[name] == "" {
				return settings.Wrong("must not be empty")
			}
			return nil
		})
	own = &settings.Own[loft]{
		Fields:   []settings.OwnField[loft]{{Field: place}, {Field: rings, Matches: settings.MatchesNames}},
		Patterns: func(l *loft) settings.Patterns { return l.AlarmFields },
		Place:    func(l *loft) string { return l.Place },
		With: func(base, own *loft) *loft {
			merged := *base
			merged.Place, merged.Rings = cmp.Or(own.Place, base.Place), own.Rings
			return &merged
		},
	}
)

type size string

type seal string

// String hides the seal.
func (s seal) String() string { return "seal..." }

// pigeon is the part of a target that needs it. It stands for the parts of package ring's targets.
var pigeon = &settings.Part[loft]{
	Name: "pigeon", Type: "Pigeon", Target: clock.TargetWebhook, Needs: "a loft",
	Receiver: func(l *loft) string { return l.Place },
	New:      func() *loft { return &loft{Size: "small", Wait: 15 * time.Second, Birds: 3} },
	Fields: []settings.Field[loft]{
		place,
		settings.Text(settings.FieldInfo{Name: "note", Max: 10}, func(l *loft) *string { return &l.Note }, nil).
			Redacted(func(note string) (string, bool) { return note[:1] + "...", true }),
		settings.Choice(settings.FieldInfo{Name: "size"}, func(l *loft) *size { return &l.Size }, "small", "large", "vast"),
		settings.Duration(settings.FieldInfo{Name: "wait"}, func(l *loft) *time.Duration { return &l.Wait },
			time.Second, time.Minute),
		settings.Integer(settings.FieldInfo{Name: "birds", Min: 1, Max: 9}, func(l *loft) *int { return &l.Birds }),
		rings,
		settings.Secrets(settings.FieldInfo{Name: "seals", Max: 2, Example: "wax"},
			func(l *loft) *[]seal { return &l.Seals }, func(s seal) *settings.Fault {
				if s == "lead" {
					return settings.Wrong("must not be lead")
				}
				return nil
			}),
		settings.AlarmFields(own.Fields, func(l *loft) *settings.Patterns { return &l.AlarmFields }),
	},
	Own: own,
}

// nest is the value of owl.
type nest struct{ Tree, Hole string }

// owl is a part that its target can do without, with a fault that no field has.
var owl = &settings.Part[nest]{
	Name: "owl", Target: clock.TargetAMQP, Absent: "any tree",
	New: func() *nest { return &nest{} },
	Fields: []settings.Field[nest]{
		settings.Text(settings.FieldInfo{Name: "tree", Max: 5},
			func(n *nest) *string { return &n.Tree }, nil),
		settings.Text(settings.FieldInfo{Name: "hole", Max: 5},
			func(n *nest) *string { return &n.Hole }, nil),
	},
	Check: func(n *nest) error {
		if *n == (nest{}) {
			return clock.Invalid(clock.CodeRequired, "tree", "give tree, hole or both")
		}
		return nil
	},
}

// form has both parts.
var form = settings.NewForm(owl, pigeon)
