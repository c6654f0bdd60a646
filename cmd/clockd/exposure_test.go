package main

import (
	"slices"
	"strings"
	"testing"
)

func TestExposureWarnsBeyondLoopback(t *testing.T) {
	for address, exposed := range map[string]bool{
		"": false, "127.0.0.1:8080": false, "127.9.9.9:1": false, "[::1]:8080": false, "[::ffff:127.0.0.1]:8080": false,
		"0.0.0.0:8080": true, "[::]:8080": true, "10.0.0.2:8080": true, "[2001:db8::1]:8080": true,
	} {
		if got := exposure(address) != ""; got != exposed {
			t.Errorf("%q: warned %t", address, got)
		}
	}
}

// TestOpenListenerIsReportedAtStartAndInReadiness starts clockd on all addresses.
func TestOpenListenerIsReportedAtStartAndInReadiness(t *testing.T) {
	t.Parallel()
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t), "CLOCKD_LISTEN=0.0.0.0:0")
	var readiness struct {
		Checks []struct{ Name, Status string }
	}
	status, _, err := p.decode("GET", "/readyz", nil, &readiness)
	if err != nil || status != 200 || !slices.Contains(readiness.Checks, struct{ Name, Status string }{"authentication", statusWarning}) {
		t.Errorf("readiness is %d %+v, %v", status, readiness, err)
	}
	if err := p.terminate(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.log.String(), "http is open to the network without authentication") {
		t.Errorf("the log does not warn:\n%s", p.log.String())
	}
}
