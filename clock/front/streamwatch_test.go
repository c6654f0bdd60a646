package front

import (
	"bytes"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// FuzzFrameScanner compares the frames that the scanner finds, in pieces of any size, with the frames that a framer
// reads.
func FuzzFrameScanner(f *testing.F) {
	var b bytes.Buffer
	framer := http2.NewFramer(&b, nil)
	_ = framer.WriteSettings()
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("abc"), EndHeaders: true})
	_ = framer.WriteData(1, true, []byte("content"))
	_ = framer.WriteRSTStream(3, http2.ErrCodeCancel)
	f.Add(b.Bytes(), 1)
	f.Add(b.Bytes(), 10)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		type frame struct {
			kind   http2.FrameType
			flags  http2.Flags
			stream uint32
		}
		var want, got []frame
		for r := bytes.NewReader(b); ; {
			h, err := http2.ReadFrameHeader(r)
			if err != nil {
				break
			}
			want = append(want, frame{h.Type, h.Flags, h.StreamID})
			if _, err := io.CopyN(io.Discard, r, int64(h.Length)); err != nil {
				break
			}
		}
		var s frameScanner
		for part := range slices.Chunk(b, min(max(piece, 1), 1<<20)) {
			s.scan(part, func(kind http2.FrameType, flags http2.Flags, stream uint32) {
				got = append(got, frame{kind, flags, stream})
			})
		}
		if !slices.Equal(got, want) {
			t.Errorf("found %v, want %v", got, want)
		}
	})
}

// The end of a connection takes its streams without a handler out of the count of all connections.
func TestEndedConnectionHasNoUnservedStreams(t *testing.T) {
	t.Parallel()
	all := new(atomic.Int64)
	w := newStreamWatch(all, time.Minute)
	var b bytes.Buffer
	framer := http2.NewFramer(&b, nil)
	w.read([]byte(http2.ClientPreface))
	for stream := uint32(1); stream < 6; stream += 2 {
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, EndStream: true})
	}
	w.read(b.Bytes())
	done := w.serve()
	if all.Load() != 2 {
		t.Errorf("%d of three streams are without a handler while one is served", all.Load())
	}
	w.close()
	done()
	if all.Load() != 0 {
		t.Errorf("%d streams are left of the ended connection", all.Load())
	}
}

// Too many resets at once slow down their connection. Resets of ended streams do not.
func TestManyResetsSlowTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStreamWatch(new(atomic.Int64), time.Minute)
		var b bytes.Buffer
		framer := http2.NewFramer(&b, nil)
		next := uint32(1)
		streams := func(n int, then func(stream uint32)) {
			for range n {
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: next, EndHeaders: true, EndStream: true})
				w.read(b.Next(b.Len()))
				then(next)
				next += 2
			}
		}
		reset := func(stream uint32) {
			_ = framer.WriteRSTStream(stream, http2.ErrCodeCancel)
			w.read(b.Next(b.Len()))
		}
		served := func(stream uint32) {
			_ = framer.WriteData(stream, true, nil)
			w.wrote(b.Next(b.Len()))
			reset(stream)
		}
		waits := func(after string, want time.Duration) {
			t.Helper()
			begun := time.Now()
			if err := w.awaitTurn(); err != nil || time.Since(begun).Round(time.Millisecond) != want {
				t.Errorf("%s, the connection waits %v, want %v: %v", after, time.Since(begun), want, err)
			}
		}
		w.read([]byte(http2.ClientPreface))
		streams(10*resetsAtOnce, served)
		waits("after served requests", 0)
		streams(resetsAtOnce, reset)
		waits("after as many resets as may be at once", 0)
		streams(resetsPerSecond/2, reset)
		waits("after more", time.Second/2)
		waits("after the wait", 0)
		w.close()
	})
}
