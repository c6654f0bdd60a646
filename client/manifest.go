package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// ManifestOptions say how a manifest is applied.
type ManifestOptions struct {
	DryRun   bool // change nothing, and return what would change
	Prune    bool // remove what an earlier manifest of the label had, and this one has not
	TakeOver bool // take items that belong to other labels
}

// ManifestResult has the effects on the items of a manifest.
type ManifestResult struct {
	Application string         `json:"application"`
	Label       string         `json:"label"`
	DryRun      bool           `json:"dry_run"`
	Failed      int            `json:"failed"` // items with an error
	Items       []ManifestItem `json:"items"`

	Raw json.RawMessage `json:"-"` // the result as the service wrote it
}

// UnmarshalJSON reads a result of the service.
func (r *ManifestResult) UnmarshalJSON(b []byte) error {
	type fields ManifestResult
	if err := json.Unmarshal(b, (*fields)(r)); err != nil {
		return err
	}
	r.Raw = append(json.RawMessage(nil), b...)
	return nil
}

// ManifestAction is the effect on an item of a manifest.
type ManifestAction string

// The actions.
const (
	ManifestCreate ManifestAction = "create"
	ManifestUpdate ManifestAction = "update"
	ManifestKeep   ManifestAction = "keep"   // it is as the manifest has it
	ManifestRemove ManifestAction = "remove" // only with Prune
	ManifestLeave  ManifestAction = "leave"  // the manifest has it no longer, and Prune was not given
)

// ManifestItem is an item of a manifest.
type ManifestItem struct {
	Kind    string           `json:"kind"` // setting, destination or alarm
	Name    string           `json:"name"` // of the setting or destination, or the business id
	Action  ManifestAction   `json:"action"`
	Error   *ManifestError   `json:"error"`   // why the action was not taken; nil: it was
	Changes []ManifestChange `json:"changes"` // what changes; empty also if only secret values change
}

// ManifestError says why an item of a manifest was not changed.
type ManifestError struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// ManifestChange is a value of an item that changes. Secret values are not shown.
type ManifestChange struct {
	Path   string          `json:"path"` // names of members, joined by dots; "": the whole item
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// ApplyManifest makes an application as a manifest has it: a JSON object with settings, destinations and alarms. The
// label tells the manifest from others of the application. The same manifest again changes nothing. An item that could
// not be changed has an error in the result; an error of the call says that nothing was changed, or that it is not
// known. Then apply the manifest again. The token needs the role admin.
func (c *Client) ApplyManifest(
	ctx context.Context, application, label string, manifest json.RawMessage, o ManifestOptions,
) (*ManifestResult, error) {
	q := newQuery()
	for name, given := range map[string]bool{"dry_run": o.DryRun, "prune": o.Prune, "take_over": o.TakeOver} {
		if given {
			q.Set(name, "true")
		}
	}
	path := q.of(applicationPath(application) + "/manifests/" + url.PathEscape(label))
	var result ManifestResult
	err := c.call(ctx, &request{method: http.MethodPut, path: path, body: manifest, repeat: true}, &result)
	if err != nil {
		return nil, err
	}
	return &result, nil
}

// ManifestRecord says what the manifests with a label have made in an application.
type ManifestRecord struct {
	Application string         `json:"application"`
	Label       string         `json:"label"`      // empty: the record of the application cannot be read
	Unreadable  string         `json:"unreadable"` // why it cannot be read
	ChangedAt   time.Time      `json:"changed_at"`
	ChangedBy   string         `json:"changed_by"`
	Items       []ManifestItem `json:"items"` // kind and name

	Raw json.RawMessage `json:"-"` // the record as the service wrote it
}

// UnmarshalJSON reads a record of the service.
func (r *ManifestRecord) UnmarshalJSON(b []byte) error {
	type fields ManifestRecord
	if err := json.Unmarshal(b, (*fields)(r)); err != nil {
		return err
	}
	r.Raw = append(json.RawMessage(nil), b...)
	return nil
}

// Manifests reads what the manifests of an application have made, "" of all applications, by application and label. An
// error ends the list.
func (c *Client) Manifests(ctx context.Context, application string) iter.Seq2[*ManifestRecord, error] {
	path := "/v1/manifests"
	if application != "" {
		path = applicationPath(application) + "/manifests"
	}
	return func(yield func(*ManifestRecord, error) bool) {
		for cursor := ""; ; {
			q := newQuery()
			q.text("cursor", cursor)
			p, err := read[struct {
				Manifests  []*ManifestRecord `json:"manifests"`
				NextCursor string            `json:"next_cursor"`
			}](ctx, c, q.of(path))
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range p.Manifests {
				if !yield(r, nil) {
					return
				}
			}
			if cursor = p.NextCursor; cursor == "" {
				return
			}
		}
	}
}
