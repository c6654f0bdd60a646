package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// SettingsVersion is a version of an application's settings. Values of headers and metadata, and queries of URLs are not
// shown: three dots stand in their place. A signing secret is whsec_... with a fingerprint.
type SettingsVersion struct {
	Version    int64           `json:"version"`    // 0: the application never had settings
	ChangedAt  time.Time       `json:"changed_at"` // zero for version 0
	ChangedBy  string          `json:"changed_by"`
	Settings   json.RawMessage `json:"settings"`   // JSON object; null: the service cannot read them
	Unreadable string          `json:"unreadable"` // why the service cannot read them
}

// Settings are the settings of an application, and what the answering node applies.
type Settings struct {
	SettingsVersion

	Application    string          `json:"application"`
	Effective      json.RawMessage `json:"effective"`       // Settings with all defaults; null: unreadable
	AppliedVersion int64           `json:"applied_version"` // version that the node applies now
	AppliedTarget  string          `json:"applied_target"`  // where the node sends rings now; empty: nowhere

	Raw json.RawMessage `json:"-"` // the settings as the service wrote them
}

// UnmarshalJSON reads settings of the service.
func (s *Settings) UnmarshalJSON(b []byte) error {
	type fields Settings
	if err := json.Unmarshal(b, (*fields)(s)); err != nil {
		return err
	}
	s.Raw = append(json.RawMessage(nil), b...)
	return nil
}

// IfSettings is the condition of ChangeSettings that the settings have this version; 0: the application never had
// settings.
type IfSettings int64

// Settings reads the settings of an application.
func (c *Client) Settings(ctx context.Context, application string) (*Settings, error) {
	return read[Settings](ctx, c, settingsPath(application))
}

// SettingsHistory reads the newest versions of an application's settings, the newest first. limit is from 1 to 1000; 0:
// 100.
func (c *Client) SettingsHistory(ctx context.Context, application string, limit int) ([]SettingsVersion, error) {
	q := newQuery()
	q.number("limit", limit)
	page, err := read[struct {
		Versions []SettingsVersion `json:"versions"`
	}](ctx, c, q.of(settingsPath(application)+"/history"))
	if err != nil {
		return nil, err
	}
	return page.Versions, nil
}

// ChangeSettings replaces the settings of an application by a JSON object, and returns them. A setting that the object
// does not give has its default. Values that Settings does not show may stay as it shows them: then the stored values
// stay. The token needs the role admin. If a condition does not hold, the error has the code CodeConditionFailed: read
// the settings again.
func (c *Client) ChangeSettings(
	ctx context.Context, application string, settings json.RawMessage, condition ...IfSettings,
) (*Settings, error) {
	r := &request{method: http.MethodPut, path: settingsPath(application), body: settings, repeat: true}
	switch len(condition) {
	case 0:
	case 1:
		r.header = AtGeneration(int64(condition[0])).header()
	default:
		return nil, invalid("If-Match", "a change of settings has at most one condition")
	}
	var changed Settings
	if err := c.call(ctx, r, &changed); err != nil {
		return nil, err
	}
	return &changed, nil
}

func settingsPath(application string) string { return applicationPath(application) + "/settings" }
