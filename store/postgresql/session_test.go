package postgresql

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/clockd/clockd/store/storetest"
)

// pooler starts a proxy that drops the settings in the startup message, as PgBouncer does with ignore_startup_parameters. It returns the
// proxy's address.
func pooler(t *testing.T, server string) string {
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
	startup.Parameters = map[string]string{"user": startup.Parameters["user"], "database": startup.Parameters["database"]}
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

func TestPoolerThatDropsSettingsIsRefused(t *testing.T) {
	u := migratedURL(t)
	s := openStore(t, storetest.WithAddress(t, u, pooler(t, storetest.ServerAddress(t, u))))
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "PgBouncer") {
		t.Errorf("a session without its settings is used: %v", err)
	}
}
