package client

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Application is an application that has alarms or settings.
type Application struct {
	Name            string       `json:"application"`
	SettingsVersion int64        `json:"settings_version"` // version of its settings that the node applies; 0: the defaults
	Target          string       `json:"target"`           // where the node rings it; empty: nowhere, its alarms wait
	Paused          bool         `json:"paused"`
	OldestOverdue   time.Time    `json:"oldest_overdue"` // earliest due time of its overdue alarms; zero: none before ApplicationPage.OverdueUntil
	LastSeen        time.Time    `json:"last_seen"`      // when it last set or cancelled an alarm, to about a minute; zero: not known
	Blockers        []Blocker    `json:"blockers"`       // reasons why its due alarms do not ring now, as the answering node knows them
	Counts          *StateCounts `json:"counts"`         // nil: not counted

	Raw json.RawMessage `json:"-"` // the application as the service wrote it
}

// UnmarshalJSON reads an application of the service.
func (a *Application) UnmarshalJSON(b []byte) error {
	type fields Application
	if err := json.Unmarshal(b, (*fields)(a)); err != nil {
		return err
	}
	a.Raw = append(json.RawMessage(nil), b...)
	return nil
}

// StateCounts has the number of alarms in each state. With ApplicationFilter.Attention alone it has only Expired, Dead
// and Paused.
type StateCounts struct {
	Scheduled int  `json:"scheduled"`
	Ringing   int  `json:"ringing"`
	Rung      int  `json:"rung"`
	Expired   int  `json:"expired"`
	Dead      int  `json:"dead"`
	Cancelled int  `json:"cancelled"`
	Paused    int  `json:"paused"`
	Complete  bool `json:"complete"` // false: the application has more alarms than the service counted
	// AttentionComplete is false if the application has more expired, dead and paused alarms than the service counted.
	AttentionComplete bool `json:"attention_complete"`
}

// ApplicationFilter selects a page of the applications. The zero value selects the first one.
type ApplicationFilter struct {
	Name      string // only this application
	Counts    bool   // count alarms by state
	Attention bool   // only applications with expired, dead or paused alarms, and count these
	Limit     int    // most applications, 1 to 500; 0: 100
	Cursor    string // NextCursor of the page before
}

// ApplicationPage is a part of the list of applications.
type ApplicationPage struct {
	DatabaseTime time.Time      `json:"database_time"`
	OverdueUntil time.Time      `json:"overdue_until"` // end of the due times that the service looked at for OldestOverdue
	Applications []*Application `json:"applications"`  // by name
	NextCursor   string         `json:"next_cursor"`   // cursor of the next page; empty: this is the last page
}

// ApplicationPage reads one page of the applications that have alarms or settings.
func (c *Client) ApplicationPage(ctx context.Context, f ApplicationFilter) (*ApplicationPage, error) {
	q := newQuery()
	q.text("application", f.Name)
	if f.Counts {
		q.Set("counts", "true")
	}
	if f.Attention {
		q.Set("attention", "true")
	}
	q.number("limit", f.Limit)
	q.text("cursor", f.Cursor)
	return read[ApplicationPage](ctx, c, q.of("/v1/applications"))
}

// Applications reads all applications that have alarms or settings, page by page, by name. An error ends the list.
func (c *Client) Applications(ctx context.Context, f ApplicationFilter) iter.Seq2[*Application, error] {
	return func(yield func(*Application, error) bool) {
		for f := f; ; {
			p, err := c.ApplicationPage(ctx, f)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, a := range p.Applications {
				if !yield(a, nil) {
					return
				}
			}
			if f.Cursor = p.NextCursor; f.Cursor == "" {
				return
			}
		}
	}
}
