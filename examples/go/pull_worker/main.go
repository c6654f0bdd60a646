// Command pull_worker reserves rings of an application whose target is pull, prints them, and acknowledges them.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/clockd/clockd/client"
)

func main() {
	application := "shop"
	if len(os.Args) > 1 {
		application = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := client.New(cmp.Or(os.Getenv("CLOCKD_SERVER"), "http://127.0.0.1:8080"),
		client.WithToken(os.Getenv("CLOCKD_TOKEN")))
	if err != nil {
		log.Fatal(err)
	}
	handled := map[string]bool{} // in production: a table, written in the transaction of the work
	for ctx.Err() == nil {
		rings, err := c.Reserve(ctx, application, 10, 20*time.Second)
		if err != nil && ctx.Err() == nil {
			log.Print("connection failed: ", err)
			pause(ctx, time.Second)
		}
		for i := range rings {
			handle(c, application, &rings[i], handled)
		}
	}
}

func handle(c *client.Client, application string, r *client.Ring, handled map[string]bool) {
	if !handled[r.MessageID] { // a copy of a ring has the same message id
		fmt.Println(r.BusinessID, r.Payload) // the work
		handled[r.MessageID] = true
	}
	// Not the context of the signal: finished work is acknowledged. A stale ring has an answer, or has rung again.
	_, err := c.Ack(context.Background(), application, r.MessageID)
	var e *client.Error
	if err != nil && (!errors.As(err, &e) || e.Code != client.CodeStaleRing) {
		log.Printf("%s rings again: %v", r.BusinessID, err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
