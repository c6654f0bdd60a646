package lease

import (
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// restingSuffix ends the lines of an application whose clients rest. No name of an application has a blank.
const restingSuffix = " resting"

// Announcement returns the lines of a node's row (store.Node.Applications) for an application that has clients at the
// node: subscribers or workers. named are the targets of the alarms that the clients can get, as the alarms name them;
// clock.NoTarget stands for alarms that name none. All of them together are one line, the name of the application,
// which older builds know too. They ignore the other lines.
//
// Clients that rest will come back: a node gets the alarms for them only while no other node has clients that do not
// rest.
func Announcement(application string, named []clock.TargetKind, resting bool) (lines []string) {
	suffix := ""
	if resting {
		suffix = restingSuffix
	}
	all := store.AddresseesOf(application)
	if len(named) == len(all) {
		return []string{application + suffix}
	}
	for _, target := range named {
		lines = append(lines, store.Named{Target: target}.Of(application).String()+suffix)
	}
	return lines
}

// AnnouncedApplications returns the applications that lines of Announcement name, each once, in the order of the lines.
func AnnouncedApplications(lines []string) (applications []string) {
	known := map[string]bool{}
	for _, line := range lines {
		if application, _ := announcedApplication(line); !known[application] {
			known[application] = true
			applications = append(applications, application)
		}
	}
	return applications
}

// announcedApplication returns the application that a line names, and whether the line is about a part of its alarms.
func announcedApplication(line string) (application string, part bool) {
	line = strings.TrimSuffix(line, restingSuffix)
	application, _, part = strings.Cut(line, "/")
	return application, part
}
