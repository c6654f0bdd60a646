package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// flood streams sets of an application until ctx ends, as fast as clockd reads.
func (p *process) flood(ctx context.Context, application string, stream int) {
	body, lines := io.Pipe()
	defer func() { _ = lines.Close() }()
	go func() {
		payload := strings.Repeat("x", 1<<10)
		for i := 0; ctx.Err() == nil; i++ {
			line := fmt.Sprintf(`{"business_id":"%d-%d","delay":"1h","text":"%s"}`+"\n", stream, i, payload)
			if _, err := io.WriteString(lines, line); err != nil {
				return
			}
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/applications/"+application+"/alarms", body)
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
}

// slowInserts makes every insert of a row of the application take the server a millisecond or longer.
func slowInserts(t *testing.T, engine, databaseURL, application string) {
	t.Helper()
	u := parse(t, databaseURL)
	driver, dsn := "", ""
	var statements []string
	switch engine {
	case "mariadb":
		password, _ := u.User.Password()
		driver, dsn = "mysql", fmt.Sprintf("%s:%s@tcp(%s)%s", u.User.Username(), password, u.Host, u.Path)
		statements = []string{"CREATE TRIGGER slow BEFORE INSERT ON alarm FOR EACH ROW BEGIN IF NEW.application = '%s' THEN DO SLEEP(0.001); END IF; END"}
	case "postgresql":
		driver, dsn = "pgx", databaseURL
		statements = []string{
			"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.application = '%s' THEN PERFORM pg_sleep(0.001); END IF; RETURN NEW; END $$",
			"CREATE TRIGGER slow BEFORE INSERT ON alarm FOR EACH ROW EXECUTE FUNCTION slow()",
		}
	default:
		driver, dsn = "sqlite", "file:"+strings.TrimPrefix(databaseURL, "sqlite:")+"?_pragma=busy_timeout(30000)"
		many := "json_each('[1" + strings.Repeat(",1", 60) + "]')"
		statements = []string{"CREATE TRIGGER slow BEFORE INSERT ON alarm WHEN NEW.application = '%s' BEGIN SELECT count(*) FROM " + many + ", " + many + "; END"}
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), strings.Replace(s, "%s", application, 1)); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// The streams of one application fill the queue of writes, or wait in it for as long as an application may. The sets of
// another application are not refused.
func TestFloodOfWritesRefusesNoOtherApplication(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			databaseURL := e.open(t)
			p := startOn(t, databaseURL, nil)
			slowInserts(t, e.name, databaseURL, "flood")
			const streams, sets, full = 24, 22, 11 << 20
			ctx, cancel := context.WithCancel(t.Context())
			var flood sync.WaitGroup
			defer flood.Wait()
			defer cancel()
			for i := range streams {
				flood.Go(func() { p.flood(ctx, "flood", i) })
			}
			eventually(t, "the flood fills its share of the queue, or waits as long as it may", func() bool {
				return p.metric("clockd_clock_queued_bytes") >= full ||
					p.metric(`clockd_clock_dropped_ops_total{reason="queue_slow"}`) > 0
			})
			var refused atomic.Int64
			var others sync.WaitGroup
			payload := strings.Repeat("x", 32<<10)
			for i := range sets {
				others.Go(func() {
					a, err := p.do(http.MethodPut, alarmPath("shop", fmt.Sprintf("order-%d", i)),
						map[string]any{"delay": "1h", "text": payload})
					switch {
					case err != nil:
						t.Error(err)
					case a.Code == "overloaded": // other refusals depend on the machine: SQLite writes one group at a time
						refused.Add(1)
					}
				})
			}
			others.Wait()
			t.Logf("beside %d streams %d of %d sets were refused; %.0f MiB queued", streams, refused.Load(), sets,
				p.metric("clockd_clock_queued_bytes")/(1<<20))
			if refused.Load() > 0 {
				t.Errorf("%d of %d sets were refused for another application's flood", refused.Load(), sets)
			}
		})
	}
}
