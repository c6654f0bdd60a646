package clockhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/manifest"
)

// Manifests applies manifests, and reads their records. *manifest.Applier implements it.
type Manifests interface {
	Apply(ctx context.Context, r *manifest.Request) (*manifest.Result, error)
	// Record returns the record of the application, with Version 0 if it never had a manifest.
	Record(ctx context.Context, application string) (*manifest.Record, error)
	// Records returns the records of the next applications that covers admits, by application and at most limit.
	Records(ctx context.Context, after string, limit int, covers func(application string) bool) ([]*manifest.Record, error)
}

const (
	// manifestBytes is the cap in bytes on the body of a manifest.
	manifestBytes = 4 << 20
	// manifestTime bounds the time in which a manifest is applied.
	manifestTime = 30 * time.Second
	// maxManifests is the number of applications that a page of manifests has at most.
	maxManifests = 100
)

// applyManifest applies the manifest, and responds with the effects on its items.
func (s *Server) applyManifest(c echo.Context) error {
	r, err := s.manifestRequest(c)
	if err != nil {
		return err
	}
	b, err := s.readBody(c, manifestBytes, front.LargeBodies)
	if err != nil {
		return err
	}
	defer b.release() // the alarms have copies of their payloads until then
	if err := decodeManifest(b.bytes, &r.Manifest); err != nil {
		return err
	}
	ctx, cancel := lastingContext(c, manifestTime)
	defer cancel()
	result, err := s.manifests.Apply(ctx, r)
	if err != nil {
		return clock.UnavailableIfLate(ctx, err)
	}
	return s.respondJSON(c, http.StatusOK, appendManifestResult(nil, r, result))
}

// manifestRequest reads the path and the query of a request that applies a manifest.
func (s *Server) manifestRequest(c echo.Context) (*manifest.Request, error) {
	app, err := s.manifestApplication(c)
	if err != nil {
		return nil, err
	}
	label, err := pathParam(c, "label")
	if err != nil {
		return nil, err
	}
	r := &manifest.Request{
		Manifest: manifest.Manifest{Application: app, Label: label}, By: *front.Actor(c.Request()),
		Quotas: front.CallerOf(c.Request()).CoversAll(),
	}
	values, err := queryParams(c, "dry_run", "prune", "take_over")
	if err != nil {
		return nil, err
	}
	for name, into := range map[string]*bool{"dry_run": &r.DryRun, "prune": &r.Prune, "take_over": &r.TakeOver} {
		if *into, err = flagParam(values, name); err != nil {
			return nil, err
		}
	}
	return r, manifest.ValidateLabel(label)
}

// manifestApplication returns the application in the path.
func (s *Server) manifestApplication(c echo.Context) (string, error) {
	if s.manifests == nil {
		return "", absentPart("this server applies no manifests")
	}
	return applicationOf(c)
}

// decodeManifest reads the settings, destinations and alarms of a manifest.
func decodeManifest(body []byte, m *manifest.Manifest) error {
	if err := checkJSON(body); err != nil {
		return err
	}
	known := []string{"settings", "destinations", "alarms"}
	ms, ok := objectMembers(body)
	if !ok {
		return clock.Invalid(clock.CodeInvalidValue, "",
			`a manifest must be a JSON object like {"alarms": {}}, not `+kindOf(body))
	}
	_, err := ms.each("", func(name string, value []byte) (err error) {
		switch name {
		case "settings":
			m.Settings, err = decodeEach(name, value)
		case "destinations":
			m.Destinations, err = decodeEach(name, value)
		case "alarms":
			m.Alarms, err = decodeManifestAlarms(m.Application, value)
		default:
			err = unknownField("", name, known)
		}
		return err
	})
	return err
}

// eachOf calls decode for each member of an object that is not null. It takes null as an object without members.
func eachOf(parent string, raw []byte, decode func(name string, value []byte) error) error {
	if isNull(raw) {
		return nil
	}
	ms, ok := objectMembers(raw)
	if !ok {
		return wrongType(parent, "an object", raw)
	}
	_, err := ms.each(parent+".", func(name string, value []byte) error {
		if isNull(value) {
			return nil
		}
		return decode(name, value)
	})
	return err
}

// decodeEach returns the members of an object as JSON.
func decodeEach(parent string, raw []byte) (map[string]string, error) {
	texts := map[string]string{}
	err := eachOf(parent, raw, func(name string, value []byte) error {
		texts[name] = string(value)
		return nil
	})
	return texts, err
}

// decodeManifestAlarms reads sets by their business ids.
func decodeManifestAlarms(application string, raw []byte) (sets []clock.Set, err error) {
	const parent = "alarms"
	err = eachOf(parent, raw, func(id string, value []byte) error {
		if err := clock.ValidateBusinessID(id); err != nil {
			return clock.Invalid(clock.CodeInvalidBusinessID, parent, fmt.Sprintf("%.64q: %s", id, err))
		}
		decoded, err := decodeValidSet(value, pathBody)
		if err == nil && decoded.set.If.Kind != clock.AnyRow {
			err = clock.Invalid(clock.CodeUnknownField, "if", "an alarm of a manifest has no condition")
		}
		if err != nil {
			return clock.Within(parent+"."+id, err)
		}
		set := decoded.set
		set.Key = clock.Key{Application: application, BusinessID: id}
		sets = append(sets, set)
		return nil
	})
	return sets, err
}

func appendManifestResult(b []byte, r *manifest.Request, result *manifest.Result) []byte {
	b = appendString(append(b, `{"application":`...), r.Application)
	b = appendString(append(b, `,"label":`...), r.Label)
	b = strconv.AppendBool(append(b, `,"dry_run":`...), r.DryRun)
	b = strconv.AppendInt(append(b, `,"failed":`...), int64(result.Failed()), 10)
	return append(appendList(append(b, `,"items":`...), result.Items, appendItemResult), '}')
}

func appendItemResult(r *manifest.ItemResult, b []byte) []byte {
	b = append(append(b, `{"kind":"`...), r.Kind...)
	b = appendString(append(b, `","name":`...), r.Name)
	b = append(append(append(b, `,"action":"`...), r.Action...), '"')
	b = append(b, `,"error":`...)
	if e, is := errors.AsType[*clock.Error](r.Err); is {
		b = appendString(append(b, `{"code":`...), e.Code)
		b = append(appendString(append(b, `,"detail":`...), e.Error()), '}')
	} else {
		b = append(b, "null"...)
	}
	var changes []manifest.Difference
	if r.Err == nil && (r.Action == manifest.Create || r.Action == manifest.Update) {
		before, after := shownItem(r)
		changes = manifest.Diff(before, after)
	}
	return append(appendList(append(b, `,"changes":`...), changes, appendDifference), '}')
}

// shownItem returns an item before and after, as people see it; "": there was none.
func shownItem(r *manifest.ItemResult) (before, after string) {
	if r.Kind != manifest.Alarm {
		return r.Before, r.After
	}
	if r.AlarmBefore != nil && !r.AlarmBefore.State.Over() {
		before = shownContent(r.AlarmBefore)
	}
	if r.AlarmAfter != nil {
		after = shownContent(r.AlarmAfter)
	}
	return before, after
}

// contentMembers are the members of an alarm that a set gives.
var contentMembers = []string{
	"content_type", "payload", "text", "base64", "retry", "ack_timeout", "max_rings", "priority", "delivery", "target",
	"receiver", "repeat",
}

// shownContent returns what a set gives of an alarm, as an object.
func shownContent(a *clock.Alarm) string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(appendAlarm(nil, a), &members); err != nil {
		panic(err)
	}
	maps.DeleteFunc(members, func(name string, value json.RawMessage) bool {
		return !slices.Contains(contentMembers, name) || isNull(value)
	})
	content, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(content)
}

func appendDifference(d *manifest.Difference, b []byte) []byte {
	b = appendString(append(b, `{"path":`...), d.Path)
	b = appendDocument(append(b, `,"before":`...), string(d.Before))
	return append(appendDocument(append(b, `,"after":`...), string(d.After)), '}')
}

// listManifestsOf responds with the items of the application's manifests.
func (s *Server) listManifestsOf(c echo.Context) error {
	app, err := s.manifestApplication(c)
	if err != nil {
		return err
	}
	if _, err := queryParams(c); err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	r, err := s.manifests.Record(ctx, app)
	if err != nil {
		return readFailure(ctx, err)
	}
	return s.respondRead(c, append(appendRecords([]byte(`{"manifests":`), []*manifest.Record{r}), '}'))
}

// listManifests responds with a page of the items of all applications' manifests. The cursor of a page is the
// name of its last application.
func (s *Server) listManifests(c echo.Context) error {
	values, err := queryParams(c, "cursor", "limit")
	if err != nil {
		return err
	}
	after := values.Get("cursor")
	if after != "" && clock.ValidateApplication(after) != nil {
		return clock.Invalid(clock.CodeInvalidCursor, "cursor",
			"the cursor is not from a list of manifests; begin again without a cursor")
	}
	limit, err := numberParam(values, "limit", maxManifests, maxManifests)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if s.manifests == nil {
		return absentPart("this server applies no manifests")
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	records, err := s.manifests.Records(ctx, after, limit, front.CallerOf(c.Request()).Covers)
	if err != nil {
		return readFailure(ctx, err)
	}
	next := ""
	if len(records) == limit {
		next = records[limit-1].Application
	}
	b := appendRecords([]byte(`{"manifests":`), records)
	return s.respondRead(c, append(appendOptional(append(b, `,"next_cursor":`...), next), '}'))
}

// appendRecords appends the manifests of applications as one list.
func appendRecords(b []byte, records []*manifest.Record) []byte {
	type entry struct {
		application, label, unreadable string
		owned                          manifest.Owned
	}
	var entries []entry
	for _, r := range records {
		if r.Unreadable != nil {
			entries = append(entries, entry{application: r.Application, unreadable: r.Unreadable.Error(),
				owned: manifest.Owned{ChangedAt: clock.NoInstant}})
		}
		for _, label := range slices.Sorted(maps.Keys(r.Owned)) {
			entries = append(entries, entry{application: r.Application, label: label, owned: r.Owned[label]})
		}
	}
	return appendList(b, entries, func(e *entry, b []byte) []byte {
		b = appendString(append(b, `{"application":`...), e.application)
		b = appendOptional(append(b, `,"label":`...), e.label)
		b = appendOptional(append(b, `,"unreadable":`...), e.unreadable)
		b = appendInstant(append(b, `,"changed_at":`...), e.owned.ChangedAt)
		b = appendOptional(append(b, `,"changed_by":`...), e.owned.ChangedBy)
		return append(appendList(append(b, `,"items":`...), e.owned.Items, func(i *manifest.Item, b []byte) []byte {
			b = append(append(b, `{"kind":"`...), i.Kind...)
			return append(appendString(append(b, `","name":`...), i.Name), '}')
		}), '}')
	})
}
