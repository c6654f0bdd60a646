package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/webhook"
)

const (
	oldSecret   = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	newSecret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
	otherSecret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// hook is a request as the receiver got it.
type hook struct {
	header http.Header
	body   []byte
}

// ringByWebhook sends a ring as clockd does, to a receiver at the URL. The request has a signature for each secret.
func ringByWebhook(url string, r clock.Ring, body webhook.Body, secrets ...webhook.Secret) error {
	endpoint := webhook.NewEndpoint(url, secrets...)
	endpoint.Body = body
	if err := webhook.Part.Validate(endpoint); err != nil {
		return err
	}
	cfg := webhook.DefaultConfig()
	cfg.Allow = []string{"127.0.0.0/8"}
	target, err := webhook.New(cfg, webhook.Deps{
		Endpoints:  func(string) *webhook.Endpoint { return endpoint },
		Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	defer target.Close() // waits for the request
	limits := ring.Limits{WriteBy: time.Now().Add(20 * time.Second), ReplyBy: time.Now().Add(25 * time.Second)}
	if got := target.Lane(1).Deliver(context.Background(), []clock.Ring{r}, limits); got[0].Kind != clock.Confirmed {
		return fmt.Errorf("the outcome is %+v", got[0])
	}
	return nil
}

// hooksOf returns the requests of a ring whose payload and body are of each kind.
func hooksOf(t *testing.T, secrets ...webhook.Secret) []hook {
	t.Helper()
	var hooks []hook
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		hooks = append(hooks, hook{r.Header, body})
	}))
	defer server.Close()
	for _, body := range []webhook.Body{webhook.PayloadBody, webhook.EnvelopeBody} {
		for _, kind := range []clock.PayloadKind{clock.JSON, clock.Text, clock.Binary, clock.NoPayload} {
			if err := ringByWebhook(server.URL, webhookRing(kind), body, secrets...); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(hooks) != 8 {
		t.Fatalf("%d requests, want 8", len(hooks))
	}
	return hooks
}

func webhookRing(kind clock.PayloadKind) clock.Ring {
	r := clock.Ring{
		AlarmID: 4711, Key: clock.Key{Application: "shop", BusinessID: "order/1 % ü"}, Generation: 3, RingNo: 2,
		RingAt: 1_700_000_000_999,
		RungAt: clock.Instant(time.Now().UnixMilli()), ClaimID: "c1",
		Payload: []byte("{\"a\": 1.0,\n \"b\":\"<\"}"), PayloadKind: kind, ContentType: "x/y",
	}
	if kind == clock.NoPayload {
		r.Payload = nil
	}
	return r
}

func verifier(t *testing.T, secrets ...string) *client.Verifier {
	t.Helper()
	v, err := client.NewVerifier(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerifierTakesTheWebhooksOfTheService(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signed []webhook.Secret
		known  []string
		want   error
	}{
		"one secret":         {[]webhook.Secret{oldSecret}, []string{oldSecret}, nil},
		"receiver is ahead":  {[]webhook.Secret{oldSecret}, []string{newSecret, oldSecret}, nil},
		"receiver is behind": {[]webhook.Secret{newSecret, oldSecret}, []string{oldSecret}, nil},
		"rotation is over":   {[]webhook.Secret{newSecret}, []string{oldSecret}, client.ErrWebhookSignature},
		"another sender": {[]webhook.Secret{otherSecret}, []string{oldSecret, newSecret},
			client.ErrWebhookSignature},
	} {
		t.Run(name, func(t *testing.T) {
			for _, h := range hooksOf(t, c.signed...) {
				if err := verifier(t, c.known...).Verify(h.header, h.body); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v: %v %q", err, c.want, h.header, h.body)
				}
			}
		})
	}
}

func TestEnvelopeIsReadAsARing(t *testing.T) {
	t.Parallel()
	for i, h := range hooksOf(t, oldSecret)[4:] {
		var r client.Ring
		if err := json.Unmarshal(h.body, &r); err != nil {
			t.Fatalf("%s: %v", h.body, err)
		}
		want := []client.PayloadKind{client.JSONPayload, client.TextPayload, client.BinaryPayload, client.NoPayload}[i]
		switch {
		case r.MessageID != "4711.3.2" || r.Application != "shop" || r.BusinessID != "order/1 % ü" ||
			r.Generation != 3 || r.RingNo != 2:
			t.Errorf("%+v", r)
		case r.Payload.Kind() != want ||
			want != client.NoPayload && string(r.Payload.Bytes()) != "{\"a\": 1.0,\n \"b\":\"<\"}":
			t.Errorf("payload %v %q", r.Payload.Kind(), r.Payload.Bytes())
		}
	}
}
