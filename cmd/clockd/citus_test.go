//go:build citus

package main

import (
	"context"
	"net"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// With the build tag citus, every flow runs on Citus instead of the other databases. CLOCKD_TEST_CITUS_URL is the URL
// of a coordinator on which the tests may create databases.
func init() { engines, allFlows = []databaseEngine{{"citus", citus}}, true }

// citus creates an empty database on the coordinator and its workers, and returns its URL.
func citus(t *testing.T) string {
	t.Helper()
	raw := os.Getenv("CLOCKD_TEST_CITUS_URL")
	if raw == "" {
		t.Fatal("CLOCKD_TEST_CITUS_URL is not set: make test-citus sets it")
	}
	u, name := parse(t, raw), distributedName+randomName()
	servers := append([]string{u.Host}, citusWorkers(t, u)...)
	t.Cleanup(func() {
		for _, server := range servers {
			onCitus(t, u, server, u.Path, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		}
	})
	for _, server := range servers {
		onCitus(t, u, server, u.Path, "SET citus.enable_create_database_propagation = off", "CREATE DATABASE "+name)
		onCitus(t, u, server, "/"+name, "CREATE EXTENSION citus")
	}
	statements := []string{"SELECT citus_set_coordinator_host('" + u.Hostname() + "', " + u.Port() + ")"}
	for _, worker := range servers[1:] {
		host, port, err := net.SplitHostPort(worker)
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, "SELECT citus_add_node('"+host+"', "+port+")")
	}
	onCitus(t, u, u.Host, "/"+name, statements...)
	own := *u
	own.Path = "/" + name
	return own.String()
}

// citusWorkers returns the addresses of the workers.
func citusWorkers(t *testing.T, coordinator *url.URL) []string {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), coordinator.String())
	if err != nil {
		t.Fatalf("connect to the coordinator: %v; start it with deploy/citus", err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(context.Background(),
		"SELECT concat(nodename, ':', nodeport) FROM pg_dist_node WHERE shouldhaveshards ORDER BY nodeid")
	if err != nil {
		t.Fatal(err)
	}
	workers, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(workers) < 2 {
		t.Fatalf("the cluster has %d workers, and the test needs two: %v", len(workers), err)
	}
	return workers
}

// onCitus runs statements on one server.
func onCitus(t *testing.T, u *url.URL, server, path string, statements ...string) {
	t.Helper()
	own := *u
	own.Host, own.Path = server, path
	conn, err := pgx.Connect(context.Background(), own.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, statement := range statements {
		if _, err := conn.Exec(context.Background(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
