package access

import (
	"fmt"
	"strings"
)

// Need is what a request needs of a role. A request has one need.
type Need uint8

// The needs.
const (
	Read    Need = 1 << iota // read alarms, settings and figures
	Write                    // set and cancel alarms
	Take                     // take rings and answer them
	Operate                  // kick, discard, pause, resume, trigger and backfill alarms, singly and in bulk
	Admin                    // read the audit, and change settings; tokens change only in the database
)

// Role is a set of needs under a name. The zero Role allows nothing.
type Role uint8

// The roles.
const (
	Reader Role = iota + 1
	Application
	Operator
	Administrator
)

// roles holds the name and the needs of each role.
var roles = map[Role]struct {
	name  string
	needs Need
}{
	Reader:        {"reader", Read},
	Application:   {"application", Read | Write | Take},
	Operator:      {"operator", Read | Write | Operate},
	Administrator: {"admin", Read | Write | Take | Operate | Admin},
}

// RoleNames lists the names of all roles, from the least to the most.
var RoleNames = []string{"reader", "application", "operator", "admin"}

// Allows reports whether the role allows the need. No role allows a zero need.
func (r Role) Allows(need Need) bool { return need != 0 && roles[r].needs&need == need }

// String returns the role's name.
func (r Role) String() string {
	if role, known := roles[r]; known {
		return role.name
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// ParseRole reads the name of a role.
func ParseRole(name string) (Role, error) {
	for r, role := range roles {
		if role.name == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("unknown role %q; known are %s", name, strings.Join(RoleNames, ", "))
}

// RolesWith returns the names of the roles that allow the need, from the least to the most.
func RolesWith(need Need) (names []string) {
	for r := Reader; r <= Administrator; r++ {
		if r.Allows(need) {
			names = append(names, r.String())
		}
	}
	return names
}
