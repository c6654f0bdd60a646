// Command stream_rings prints the rings of an application that arrive on the HTTP stream, and acknowledges them.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

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
	// Consume connects again, resumes the stream, and handles each message id once.
	err = c.Consume(ctx, application, client.Consumer{
		Handle: func(_ context.Context, r *client.Ring) client.Answer {
			fmt.Println(r.BusinessID, r.Payload)
			return client.Answer{Kind: client.Acked}
		},
		Failed: func(err error) { log.Print(err) },
	})
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}
