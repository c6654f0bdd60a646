package bench

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// What a server sends while it is slowed down passes later, in order and within the bounds of the delays. The end of
// the slowdown lets the rest pass at once.
func TestSlowdownHoldsBackWhatTheServerSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, fromServer := net.Pipe()
		toClient, client := net.Pipe()
		var s slowdown
		done := make(chan struct{})
		var counted traffic
		go func() {
			defer close(done)
			s.forward(t.Context(), toClient, fromServer, newFramer(1, func([]byte) (lacks, rest int) { return 0, 0 }),
				&counted)
			_ = toClient.Close()
		}()
		begun := time.Now()
		send := func(text string) {
			if _, err := server.Write([]byte(text)); err != nil {
				t.Error(err)
			}
		}
		receive := func(want string, least, most time.Duration) {
			t.Helper()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(client, got); err != nil || string(got) != want {
				t.Fatalf("%q, %v, want %q", got, err, want)
			}
			if took := time.Since(begun); took < least || took > most+releaseCheck {
				t.Errorf("%q after %s, want %s to %s", want, took, least, most)
			}
		}
		send("a")
		receive("a", 0, 0)
		s.delay(3*time.Second, 10*time.Second)
		send("b")
		receive("b", 3*time.Second, 10*time.Second)
		s.end()
		begun = time.Now()
		s.silence(5 * time.Second)
		send("c")
		receive("c", 5*time.Second, 5*time.Second)
		begun = time.Now()
		s.delay(time.Hour, time.Hour)
		send("d")
		time.Sleep(time.Minute)
		s.end()
		send("e")
		receive("de", time.Minute, time.Minute)
		_ = server.Close()
		<-done
		if n := counted.bytes.Load(); n != 5 {
			t.Errorf("%d bytes counted", n)
		}
	})
}
