package client_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clockd/clockd/client"
)

func TestSettingsAreReadAndChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made, err := exec.CommandContext(t.Context(), program, "token", "generate").Output()
	if err != nil {
		t.Fatal(err)
	}
	token, file := strings.TrimSpace(string(made)), filepath.Join(dir, "token")
	if err := os.WriteFile(file, made, 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := newService(t, filepath.Join(dir, "clockd.db"), "127.0.0.1:0", "CLOCKD_BOOTSTRAP_TOKEN_FILE="+file)
	c, ctx := dial(t, url, client.WithToken(token)), t.Context()
	s, err := c.Settings(ctx, "shop")
	if err != nil || s.Application != "shop" || s.Version != 0 || !s.ChangedAt.IsZero() || string(s.Settings) != "{}" ||
		s.AppliedTarget != "stream" || !strings.Contains(string(s.Effective), `"max_rings":10`) {
		t.Fatalf("before: %+v, %v", s, err)
	}
	const secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	hook := json.RawMessage(`{"webhook":{"url":"https://a.example/?key=hush","secrets":["` + secret + `"]}}`)
	for range 2 { // the response to the first may have been lost
		s, err = c.ChangeSettings(ctx, "shop", hook, client.IfSettings(0))
		if err != nil || s.Version != 1 || s.ChangedBy != "bootstrap" || s.ChangedAt.IsZero() {
			t.Fatalf("change: %+v, %v", s, err)
		}
	}
	edited := strings.Replace(string(s.Settings), "15s", "20s", 1)
	if strings.Contains(edited, "hush") || !strings.Contains(edited, `"20s"`) ||
		!strings.Contains(string(s.Raw), edited[:20]) {
		t.Errorf("shown are %s", s.Raw)
	}
	s, err = c.ChangeSettings(ctx, "shop", json.RawMessage(edited), client.IfSettings(1))
	if err != nil || s.Version != 2 {
		t.Errorf("change what was read: %+v, %v", s, err)
	}
	_, err = c.ChangeSettings(ctx, "shop", json.RawMessage(`{}`), client.IfSettings(1))
	refused(t, err, client.CodeConditionFailed)
	_, err = c.ChangeSettings(ctx, "shop", json.RawMessage(`{"max_rings":0}`))
	if failed := refused(t, err, "out_of_range"); failed.Field != "max_rings" {
		t.Errorf("%+v", failed)
	}
	_, err = c.ChangeSettings(ctx, "shop", json.RawMessage(`{}`), client.IfSettings(1), client.IfSettings(2))
	if failed := refused(t, err, client.CodeInvalidValue); failed.Status != 0 {
		t.Errorf("two conditions: %+v", failed)
	}
	history, err := c.SettingsHistory(ctx, "shop", 1)
	if err != nil || len(history) != 1 || history[0].Version != 2 ||
		!strings.Contains(string(history[0].Settings), "20s") {
		t.Errorf("history: %+v, %v", history, err)
	}
	cluster, err := c.Nodes(ctx)
	if err != nil || cluster.SettingsChanges != 2 || cluster.Nodes[0].Settings == nil {
		t.Errorf("nodes: %+v, %v", cluster, err)
	}
	_, err = dial(t, url).ChangeSettings(ctx, "shop", json.RawMessage(`{}`))
	refused(t, err, client.CodeUnauthenticated)
	_, err = dial(t, serverURL).ChangeSettings(ctx, "shop", json.RawMessage(`{}`)) // without tokens nobody may
	refused(t, err, client.CodeForbidden)
}
