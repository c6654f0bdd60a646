package client

import (
	"net/url"
	"strings"
)

func applicationPath(application string) string { return "/v1/applications/" + escape(application) }

func alarmsPath(application string) string { return applicationPath(application) + "/alarms" }

func alarmPath(application, businessID string) string {
	return alarmsPath(application) + "/" + escape(businessID)
}

func ringPath(application, messageID string) string {
	return applicationPath(application) + "/rings/" + escape(messageID)
}

// escape percent-encodes an id as one path segment. It encodes "." and ".." too, because programs on the way resolve
// them.
func escape(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}
