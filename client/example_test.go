package client_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/clockd/clockd/client"
)

// The order is cancelled in 30 minutes, unless it is paid before.
func Example() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	alarm, err := c.Set(ctx, "shop", "order-4711", client.Set{
		When:    client.At(time.Now().Add(30 * time.Minute)),
		Payload: client.JSON(map[string]any{"order": 4711, "do": "cancel"}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(alarm.State, alarm.Payload)

	alarm, err = c.Cancel(ctx, "shop", "order-4711")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(alarm.State)
	// Output:
	// scheduled {"do":"cancel","order":4711}
	// cancelled
}

func ExampleError() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	_, err = c.Cancel(ctx, "shop", "order-1")
	var failed *client.Error
	switch {
	case errors.As(err, &failed) && failed.Code == client.CodeUnknownAlarm:
		fmt.Println("no such alarm")
	case errors.As(err, &failed) && failed.Unconfirmed:
		fmt.Println("the alarm may be cancelled: call again")
	case err != nil:
		fmt.Println(err)
		return
	}
	// Output: no such alarm
}

func ExampleClient_Set_absent() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	reminder := client.Set{When: client.After(24 * time.Hour), If: client.Absent, Payload: client.Text("rate us")}
	for range 2 {
		_, err = c.Set(ctx, "mail", "customer-7", reminder)
		var failed *client.Error
		switch {
		case err == nil:
			fmt.Println("set")
		case errors.As(err, &failed) && failed.Code == client.CodeConditionFailed:
			fmt.Println("set before, to ring once:", failed.Alarm.State)
		default:
			fmt.Println(err)
			return
		}
	}
	// Output:
	// set
	// set before, to ring once: scheduled
}

func ExampleClient_List() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, id := range []string{"b", "a", "c"} {
		if _, err := c.Set(ctx, "letters", id, client.Set{When: client.After(time.Hour)}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for alarm, err := range c.List(ctx, "letters", client.Filter{States: []client.State{client.Scheduled}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(alarm.BusinessID)
	}
	// Output:
	// a
	// b
	// c
}

func ExampleClient_Batch() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	results, err := c.Batch(ctx, "stock", []client.Change{
		{BusinessID: "shelf-1", Set: &client.Set{When: client.After(7 * 24 * time.Hour)}},
		{BusinessID: "shelf-2", Set: &client.Set{When: client.After(time.Hour), Priority: 17}},
		{BusinessID: "shelf-1"}, // cancels it
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, result := range results {
		if result.Err() != nil {
			fmt.Println(result.BusinessID, "failed:", result.Code, "in", result.Field)
			continue
		}
		fmt.Println(result.BusinessID, result.Status, result.State)
	}
	// Output:
	// shelf-1 201 scheduled
	// shelf-2 failed: out_of_range in priority
	// shelf-1 200 cancelled
}

// The alarm is cancelled only if nobody has changed it since it was read.
func ExampleClient_Cancel_generation() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	alarm, err := c.Set(ctx, "travel", "seat-12a", client.Set{When: client.After(time.Hour)})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err = c.Set(ctx, "travel", "seat-12a", client.Set{When: client.After(2 * time.Hour)}); err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Cancel(ctx, "travel", "seat-12a", client.AtGeneration(alarm.Generation))
	var failed *client.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Code, "now at generation", failed.Alarm.Generation)
	}
	// Output: condition_failed now at generation 2
}

func ExampleClient_Pause() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	if _, err := c.Set(ctx, "letters", "newsletter", client.Set{When: client.After(time.Hour)}); err != nil {
		fmt.Println(err)
		return
	}
	paused, err := c.Pause(ctx, "letters", "newsletter", client.Note("the printer is broken"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(paused.State, "-", paused.LastError)
	resumed, err := c.Resume(ctx, "letters", "newsletter")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resumed.State)
	// Output:
	// paused - paused: the printer is broken
	// scheduled
}

func ExampleClient_Trigger() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	nightly := client.Set{Repeat: &client.Repeat{Cron: "0 3 * * *", TimeZone: "Europe/Berlin"}}
	set, err := c.Set(ctx, "letters", "report", nightly)
	if err != nil {
		fmt.Println(err)
		return
	}
	now, err := c.Trigger(ctx, "letters", "report", client.Note("the numbers of last night were wrong"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(now.NextTryTime.Before(now.Occurrence.At), now.Occurrence.At.Equal(set.Occurrence.At))
	// Output:
	// true true
}

// What has happened to an alarm, in the order of time.
func ExampleClient_Events() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	if _, err := c.Set(ctx, "travel", "visa", client.Set{When: client.After(time.Hour)}); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Cancel(ctx, "travel", "visa"); err != nil {
		fmt.Println(err)
		return
	}
	life, err := c.Events(ctx, "travel", "visa")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, event := range life.Events {
		fmt.Println(event.Kind, event.Generation)
	}
	// Output:
	// created 1
	// cancelled 1
}

func ExampleClient_Apply() {
	ctx := context.Background()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	changes := slices.Values([]client.Change{
		{BusinessID: "invoice-1", Set: &client.Set{When: client.After(time.Hour)}},
		{BusinessID: "invoice-2", Set: &client.Set{When: client.After(time.Hour)}},
		{BusinessID: "invoice-1"}, // cancels it
		{BusinessID: "invoice-3"},
	})
	for result, err := range c.Apply(ctx, "billing", changes) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := result.Err(); err != nil {
			fmt.Println(result.BusinessID, "failed:", result.Code)
			continue
		}
		fmt.Println(result.BusinessID, result.State)
	}
	// Output:
	// invoice-1 scheduled
	// invoice-2 scheduled
	// invoice-1 cancelled
	// invoice-3 failed: unknown_alarm
}

// The consumer gets the ring of the order and answers it. A failed try is released, to ring again in a minute.
func ExampleClient_Consume() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := client.New(serverURL)
	if err != nil {
		fmt.Println(err)
		return
	}

	_, err = c.Set(ctx, "warehouse", "order-4711", client.Set{
		When: client.After(0), AckTimeout: time.Minute, Payload: client.Text("release the stock"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	work := func(r *client.Ring) error {
		fmt.Println(r.BusinessID, r.Payload)
		cancel() // this example ends after one ring
		return nil
	}
	err = c.Consume(ctx, "warehouse", client.Consumer{
		Handle: func(ctx context.Context, r *client.Ring) client.Answer {
			if err := work(r); err != nil {
				return client.Answer{Kind: client.Released, Delay: time.Minute, Reason: err.Error()}
			}
			return client.Answer{Kind: client.Acked}
		},
		Failed: func(err error) { fmt.Println(err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	alarm, err := c.Get(context.Background(), "warehouse", "order-4711")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(alarm.State, alarm.Answer)
	// Output:
	// order-4711 release the stock
	// rung ack
}

// The receiver of webhooks with --webhook body=envelope, while its secret is changed.
func ExampleVerifier() {
	const oldSecret, newSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
	verifier, err := client.NewVerifier(newSecret, oldSecret)
	if err != nil {
		fmt.Println(err)
		return
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		if err := verifier.Verify(req.Header, body); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		var r client.Ring
		if err := json.Unmarshal(body, &r); err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		fmt.Println(r.MessageID, r.BusinessID, r.Payload)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()

	// clockd sends the ring
	body := `{"message_id":"4711.3.2","application":"shop","business_id":"order-1","payload":{"do":"cancel"}}`
	if err := postSigned(receiver.URL, oldSecret, "4711.3.2", body); err != nil {
		fmt.Println(err)
	}
	// Output: 4711.3.2 order-1 {"do":"cancel"}
}

// postSigned posts a webhook that is signed as Standard Webhooks tells.
func postSigned(url, secret, id, body string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	timestamp := fmt.Sprint(time.Now().Unix())
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", timestamp)
	req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the receiver answers %s", res.Status)
	}
	return nil
}
