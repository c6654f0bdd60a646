package rabbit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// contentOf returns the content frames of one message. properties and body are sizes in bytes. maxPayload is the
// largest payload of a body frame.
func contentOf(channel uint16, properties, body, maxPayload int) []frame {
	head := binary.BigEndian.AppendUint64([]byte{0, classBasic, 0, 0}, uint64(body))
	head = append(head, 0x90, 0) // flags: content type and delivery mode
	frames := []frame{{frameHeader, channel, append(head, bytes.Repeat([]byte{'p'}, properties)...)}}
	for ; body > 0; body -= maxPayload {
		frames = append(frames, frame{frameBody, channel, bytes.Repeat([]byte{'b'}, min(maxPayload, body))})
	}
	return frames
}

// withoutContent returns a copy of a header frame. With properties it drops the properties, like boundedConn.
func withoutContent(header frame, properties bool) frame {
	p := bytes.Clone(header.payload)
	if properties {
		p = append(p[:contentHeaderSize-2:contentHeaderSize-2], 0, 0)
	}
	return frame{header.kind, header.channel, p}
}

// For every stream, read in pieces of any size: boundedConn removes bodies and properties over their bounds, and
// changes no other frame.
func TestBoundedConnDropsLargeContentOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		maxBody := rapid.SampledFrom([]int{0, 50}).Draw(t, "most")
		var stream, want []frame
		for range rapid.IntRange(0, 12).Draw(t, "messages") {
			channel := uint16(rapid.IntRange(1, 2).Draw(t, "channel"))
			stream, want = append(stream, confirmSelectOkFrame), append(want, confirmSelectOkFrame)
			properties := rapid.SampledFrom([]int{0, 30, maxHeader - contentHeaderSize, maxHeader,
				3 * muxBuffer}).Draw(t, "properties")
			size := rapid.SampledFrom([]int{0, 1, 49, 50, 51, 3 * muxBuffer}).Draw(t, "body")
			message := contentOf(channel, properties, size,
				rapid.SampledFrom([]int{17, 4000, 2 * muxBuffer}).Draw(t, "room"))
			stream = append(stream, message...)
			header := withoutContent(message[0], properties > maxHeader-contentHeaderSize)
			if size > maxBody {
				binary.BigEndian.PutUint64(header.payload[bodySizeAt:], 0)
				want = append(want, header)
				continue
			}
			want = append(append(want, header), message[1:]...)
		}
		c := newBoundedConn(&recorder{}, maxBody)
		c.reader.Reset(&chunks{t: t, left: encode(stream...)})
		var got []byte
		p := make([]byte, rapid.SampledFrom([]int{1, 3, 7, 8, 4096, 4 * muxBuffer}).Draw(t, "buffer"))
		for {
			n, err := c.Read(p)
			got = append(got, p[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || n == 0 {
				t.Fatalf("read %d bytes, %v", n, err)
			}
		}
		if got = bytes.ReplaceAll(got, heartbeat[:], nil); !bytes.Equal(got, encode(want...)) {
			t.Fatalf("the library reads %d bytes, which differ from the wanted %d bytes", len(got),
				len(encode(want...)))
		}
	})
}

// A message over the bound is not held in memory, and later wake-ups arrive.
func TestWakeUpOverTheBoundArrivesWithoutBody(t *testing.T) {
	t.Parallel()
	l, _ := listen(t, wakesOf(t, shared(t)))
	l.follow(t, 7)
	l.Send(7, []byte(strings.Repeat("x", maxWakeBody)))
	l.Send(7, []byte(strings.Repeat("x", maxWakeBody+1)))
	l.Send(7, []byte("behind it"))
	for _, want := range []int{maxWakeBody, 0, len("behind it")} {
		select {
		case body := <-l.bodies:
			if len(body) != want {
				t.Errorf("a body of %d bytes, want %d", len(body), want)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no wake-up")
		}
	}
}

// The broker may add both headers anywhere in the table. No content of the table, valid or not, changes the result
// otherwise.
func FuzzLastingSizeIgnoresTheBrokersCounts(f *testing.F) {
	f.Add(uint16(flagHeaders), []byte("\x04mineS\x00\x00\x00\x01m"), uint8(0))
	f.Add(uint16(flagHeaders|flagContentType|flagUserID), []byte("\x10x-delivery-countS\x00\x00\x00\xff"), uint8(1))
	f.Add(uint16(flagHeaders|flagContentEncoding|flagDeliveryMode), []byte("\x04bool"), uint8(200))
	f.Fuzz(func(t *testing.T, flags uint16, table []byte, cut uint8) {
		payload := func(table []byte) []byte {
			p := binary.BigEndian.AppendUint16(make([]byte, contentHeaderSize-2), flags)
			for _, flag := range []uint16{flagContentType, flagContentEncoding} {
				if flags&flag != 0 {
					p = appendShort(p, strings.Repeat("c", 255))
				}
			}
			if flags&flagHeaders != 0 {
				p = append(binary.BigEndian.AppendUint32(p, uint32(len(table))), table...)
			}
			return p
		}
		plain := payload(table)
		if got := lastingSize(plain); got > len(plain)+deliveryMode+userIDAsHeader ||
			got < len(plain)-2*countHeaderSize {
			t.Fatalf("a payload of %d bytes has the lasting size %d", len(plain), got)
		}
		lastingSize(plain[:max(contentHeaderSize, len(plain)-int(cut))]) // does not panic
		if flags&flagHeaders == 0 || bytes.Contains(table, []byte("-count")) {
			return
		}
		counts := appendInt64(appendInt64(nil, "x-delivery-count", 3), "x-acquired-count", 4)
		if got, want := lastingSize(payload(append(counts, table...))), lastingSize(plain); got != want {
			t.Fatalf("the broker's counts change the lasting size from %d to %d", want, got)
		}
	})
}

func TestLastingSizeSkipsValuesOfEveryType(t *testing.T) {
	t.Parallel()
	values := []string{"V", "t1", "b1", "B1", "s12", "u12", "I1234", "i1234", "f1234", "D12345", "l12345678",
		"d12345678", "T12345678"}
	for _, letter := range "SxAF" {
		values = append(values, string(letter)+"\x00\x00\x00\x03abc")
	}
	var table []byte
	for _, value := range values {
		table = append(appendShort(table, "mine"), value...)
	}
	table = appendInt64(appendInt64(table, "x-delivery-count", 3), "x-delivery-count", 4) // the second one is the sender's
	payload := binary.BigEndian.AppendUint16(make([]byte, contentHeaderSize-2), flagHeaders|flagDeliveryMode)
	payload = append(binary.BigEndian.AppendUint32(payload, uint32(len(table))), table...)
	if got, want := lastingSize(payload), len(payload)-countHeaderSize; got != want {
		t.Errorf("the lasting size is %d, want %d", got, want)
	}
}
