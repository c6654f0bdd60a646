// Command webhook receives the rings of an application as signed requests, and prints them.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/clockd/clockd/client"
)

// seen holds the message ids of handled rings. In production, store them in the transaction of the work.
var seen sync.Map

func main() {
	verifier, err := client.NewVerifier(os.Getenv("SECRET")) // "clockd application set" printed it
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /rings", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := verifier.Verify(r.Header, body); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		businessID, err := url.PathUnescape(r.Header.Get("X-Clockd-Business-Id"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusGone) // the alarm is dead: a repeat does not help
			return
		}
		if _, copied := seen.LoadOrStore(r.Header.Get("Webhook-Id"), true); !copied {
			fmt.Println(businessID, string(body))
		}
		w.WriteHeader(http.StatusNoContent) // the ring counts as delivered and acknowledged
	})
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8081"))
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{ReadTimeout: 30 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.Background()) })
	log.Printf("listening on %s", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
