package mysql

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/clockd/clockd/store/engine"
)

// TestNotPreparedCountsAsReadOnly: so the connections to a Galera server outside the majority are closed, like
// connections to a replica.
func TestNotPreparedCountsAsReadOnly(t *testing.T) {
	if got := classify(&mysql.MySQLError{Number: errNotPrepared}); got != engine.ReadOnly {
		t.Errorf("class %d", got)
	}
}

// TestDropConnectionsKeepsThePoolsSizes drops the idle connections of every pool. Afterwards the pools keep as many
// connections as before.
func TestDropConnectionsKeepsThePoolsSizes(t *testing.T) {
	s := migrated(t)
	for _, p := range s.d.pools() {
		ok(t, p.PingContext(t.Context()), "connect")
	}
	s.d.DropConnections()
	for i, p := range s.d.pools() {
		if open := p.Stats().OpenConnections; open != 0 {
			t.Errorf("pool %d has %d connections", i, open)
		}
		ok(t, p.PingContext(t.Context()), "connect")
		if idle := p.Stats().Idle; idle != 1 {
			t.Errorf("pool %d keeps %d idle connections", i, idle)
		}
	}
}

// TestIDStepIsRenewed: a Galera cluster changes the step between ids when a server joins or leaves.
func TestIDStepIsRenewed(t *testing.T) {
	s := migrated(t)
	ok(t, s.Check(t.Context()), "check")
	want := s.d.known().idStep
	s.d.renewIDStep("7")
	if got := s.d.known().idStep; got != 7 {
		t.Errorf("step %d", got)
	}
	_, err := s.Durability(t.Context())
	ok(t, err, "durability")
	if got := s.d.known().idStep; got != want {
		t.Errorf("step %d, want %d", got, want)
	}
}

// TestGaleraServerHasReplicas: a server of a Galera cluster has replicas without a binary log.
func TestGaleraServerHasReplicas(t *testing.T) {
	var names []string
	for _, f := range judgeVariables(map[string]string{"log_bin": "OFF", galera: "ON"}) {
		names = append(names, f.Name)
		if strings.Contains(f.Detail, "no replicas") {
			t.Errorf("%+v", f)
		}
	}
	if !slices.Contains(names, galera) {
		t.Errorf("the findings %s do not name %s", names, galera)
	}
}
