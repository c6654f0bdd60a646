package clockhttp

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"golang.org/x/net/http2"
)

// FuzzFrameScanner compares the frames that the scanner finds, in pieces of any size, with the frames that a framer reads.
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
