package postgresql

import (
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/clockd/clockd/store/storetest"
)

// startupDropper starts a proxy that drops the settings in the startup message, as PgBouncer does with
// ignore_startup_parameters. It returns the proxy's address.
func startupDropper(t *testing.T, server string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err, "listen")
	var connections sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		connections.Wait()
	})
	connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { serveWithoutSettings(client, server) })
		}
	})
	return listener.Addr().String()
}

// serveWithoutSettings forwards one connection without its settings.
func serveWithoutSettings(client net.Conn, server string) {
	defer func() { _ = client.Close() }()
	first, err := pgproto3.NewBackend(client, client).ReceiveStartupMessage()
	startup, is := first.(*pgproto3.StartupMessage)
	if err != nil || !is {
		return
	}
	startup.Parameters = map[string]string{"user": startup.Parameters["user"],
		"database": startup.Parameters["database"]}
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	message, err := startup.Encode(nil)
	if err == nil {
		_, err = upstream.Write(message)
	}
	if err == nil {
		go func() {
			_, _ = io.Copy(upstream, client)
			_ = upstream.Close()
		}()
		_, _ = io.Copy(client, upstream)
	}
	_ = upstream.Close()
}

// TestSessionsHaveTheirSettingsWithoutStartupParameters connects through a proxy that drops them.
func TestSessionsHaveTheirSettingsWithoutStartupParameters(t *testing.T) {
	u := migratedURL(t)
	s := openChecked(t, storetest.WithAddress(t, u, startupDropper(t, storetest.ServerAddress(t, u))))
	for i, p := range s.d.pools() {
		var idle, scan string
		ok(t, p.QueryRow(t.Context(),
			"SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('enable_seqscan')").Scan(&idle, &scan),
			"read the settings")
		if idle != "5s" || scan != "off" {
			t.Errorf("pool %d: %s %s", i, idle, scan)
		}
	}
}

// TestSessionThatDropsItsSettingsIsRefused connects through a proxy that bounds each set_config to its transaction.
func TestSessionThatDropsItsSettingsIsRefused(t *testing.T) {
	p := newProxy(t, migratedURL(t))
	p.localizes = true
	s := openStore(t, p.url)
	if _, err := s.Durability(t.Context()); !errors.Is(err, errSettings) {
		t.Errorf("a session without its settings is used: %v", err)
	}
}

// TestSettingsOfTheURLWin has settings of the store and another setting in the URL.
func TestSettingsOfTheURLWin(t *testing.T) {
	u, err := url.Parse(serverURL())
	ok(t, err, "parse CLOCKD_TEST_POSTGRES_URL")
	cfg := DefaultConfig()
	cfg.URL = databaseURL(t, strings.TrimPrefix(u.Path, "/"), idleInTransactionTimeout, "7min", "enable_seqscan", "on",
		applicationName, "mine", "work_mem", "5MB")
	d, err := newDriver(cfg, Deps{}.Logger())
	ok(t, err, "new driver")
	t.Cleanup(func() { _ = d.Close() })
	var got string
	ok(t, d.upkeep.QueryRow(t.Context(), `SELECT concat_ws(' ', current_setting('idle_in_transaction_session_timeout'), current_setting('enable_seqscan'),
		current_setting('application_name'), current_setting('work_mem'), current_setting('lock_timeout'))`).Scan(&got), "read the settings")
	if want := "7min on mine 5MB 1s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestConnectionIsSetUpInTwoRoundTrips counts the startup, and the statements that set and check the settings.
func TestConnectionIsSetUpInTwoRoundTrips(t *testing.T) {
	p := newProxy(t, migratedURL(t))
	s := openStore(t, p.url)
	trips := p.count(func() {
		conn, err := s.d.pool.Acquire(t.Context())
		ok(t, err, "acquire")
		conn.Release()
	})
	if trips != 2 {
		t.Errorf("%d round trips", trips)
	}
}
