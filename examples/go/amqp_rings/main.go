// Command amqp_rings prints the rings of an application that arrive in its queue at RabbitMQ, and acknowledges them.
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
	"github.com/clockd/clockd/client/amqp"
)

func main() {
	application := "shop"
	if len(os.Args) > 1 {
		application = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Consume declares the queue EXCHANGE.APPLICATION, connects again, and handles each message id once. It remembers
	// message ids in memory. In production, store them in the transaction of the work.
	err := amqp.Consume(ctx, application, amqp.Consumer{
		URL:      cmp.Or(os.Getenv("AMQP_URL"), "amqp://guest:guest@127.0.0.1:5672/"),
		Exchange: os.Getenv("CLOCKD_AMQP_EXCHANGE"), // default: clock
		Handle: func(_ context.Context, r *amqp.Ring) client.Answer {
			fmt.Println(r.BusinessID, string(r.Payload))
			return client.Answer{Kind: client.Acked}
		},
		Failed: func(err error) { log.Print(err) },
	})
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}
