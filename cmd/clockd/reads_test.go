package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/store/storetest"
)

// readBound is how many reads of requests one node runs on the database at the same time, at most.
const readBound = 6

// TestDroppedListsDoNotDelaySets drops 300 lists that read as many rows as a list may, and sets an alarm after each.
// All sets succeed. An alarm rings while lists are still being dropped. The server never runs more than readBound
// lists, and in the end it runs none.
func TestDroppedListsDoNotDelaySets(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			p := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
			p.fill("crowded", 6000) // a list by state looks at 5,000 rows at most
			rings := p.listen("due")
			running := runningLists(t, databaseURL)
			var most int64
			var sets errgroup.Group
			var responses statuses
			rungAfter := -1
			p.must(http.StatusCreated, http.MethodPut, alarmPath("due", "a"), map[string]any{"delay": "1s"})
			dropped := p.dropListsWhile("crowded", func(n int) (more bool) {
				most = max(most, running())
				if n <= 300 {
					sets.Go(func() error {
						a, err := p.do(http.MethodPut, alarmPath("others", fmt.Sprint(n)),
							map[string]any{"delay": "1h"})
						responses.add(a.Status)
						return err
					})
				}
				if rungAfter < 0 && len(rings.all()) > 0 {
					rungAfter = n
				}
				return n <= 300 || rungAfter < 0 && n < 3000
			})
			if err := sets.Wait(); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d lists dropped; sets by status: %v; at most %d lists at the server; rung after %d drops", dropped,
				responses.count, most, rungAfter)
			if responses.count[http.StatusCreated] != 300 {
				t.Errorf("not all 300 sets succeeded; responses by status: %v", responses.count)
			}
			if rungAfter < 0 {
				t.Error("the alarm did not ring while lists were dropped")
			}
			if most > readBound {
				t.Errorf("the server ran %d lists at once, want at most %d", most, readBound)
			}
			eventually(t, "the server runs no list any more", func() bool { return running() == 0 })
		})
	}
}

// statuses counts responses by status.
type statuses struct {
	mu    sync.Mutex
	count map[int]int
}

func (s *statuses) add(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = map[int]int{}
	}
	s.count[status]++
}

// fill sets n small alarms of an application.
func (p *process) fill(application string, n int) {
	p.fillWith(application, n, strings.Repeat("0", 200))
}

// fillWith sets n alarms of an application with this text over one stream.
func (p *process) fillWith(application string, n int, text string) {
	p.t.Helper()
	body, lines := io.Pipe()
	go func() {
		w := bufio.NewWriter(lines)
		for i := range n {
			fmt.Fprintf(w, `{"business_id":"%d","delay":"24h","text":"%s"}`+"\n", i, text)
		}
		_ = w.Flush()
		_ = lines.Close()
	}()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost,
		p.url+"/v1/applications/"+application+"/alarms", body)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	done := 0
	for results := bufio.NewScanner(res.Body); results.Scan(); {
		if strings.Contains(results.Text(), `"status":201`) {
			done++
		}
	}
	if done != n {
		p.t.Fatalf("%d of %d alarms were set", done, n)
	}
}

// dropListsWhile requests a list that finds no alarm, and closes the connection after 27 ms. Then it calls each with
// the number of dropped lists, and repeats all that while each returns true.
func (p *process) dropListsWhile(application string, each func(n int) (more bool)) (dropped int) {
	p.t.Helper()
	address := strings.TrimPrefix(p.url, "http://")
	tick := time.NewTicker(27 * time.Millisecond)
	defer tick.Stop()
	for more := true; more; more = each(dropped) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			p.t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn,
			"GET /v1/applications/%s/alarms?state=rung&limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n", application)
		<-tick.C
		_ = conn.Close()
		dropped++
	}
	return dropped
}

// runningLists returns a function that counts the lists that the server runs and that are not being ended.
func runningLists(t *testing.T, databaseURL string) func() int64 {
	t.Helper()
	u := parse(t, databaseURL)
	driver, dsn, count := "pgx", databaseURL, runningPostgresLists
	switch u.Scheme {
	case "sqlite":
		return func() int64 { return 0 } // SQLite has no server
	case "mysql":
		password, _ := u.User.Password()
		driver, dsn, count = "mysql", fmt.Sprintf("%s:%s@tcp(%s)%s", u.User.Username(), password, u.Host, u.Path), runningMySQLLists
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return func() int64 {
		n, err := count(t.Context(), db)
		if err != nil {
			t.Errorf("count lists: %v", err)
		}
		return n
	}
}

// runningPostgresLists counts the running lists. Its own statement does not contain their name.
func runningPostgresLists(ctx context.Context, db *sql.DB) (n int64, err error) {
	const query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE '%name: List'||'Alarms%'"
	err = db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

func runningMySQLLists(ctx context.Context, db *sql.DB) (n int64, err error) {
	sessions, err := storetest.MySQLSessions(ctx, db)
	for _, s := range sessions {
		if s.Command == "Query" && strings.Contains(s.Statement, "name: ListAlarms") {
			n++
		}
	}
	return n, err
}
