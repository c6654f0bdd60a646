package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/ring/rabbit/internal/scripted"
)

// contentOf returns the content frames of one message. properties and body are sizes in bytes. maxPayload is the
// largest payload of a body frame.
func contentOf(channel uint16, properties, body, maxPayload int) []scripted.Frame {
	head := binary.BigEndian.AppendUint64([]byte{0, scripted.ClassOfBasic, 0, 0}, uint64(body))
	head = append(head, 0x90, 0) // flags: content type and delivery mode
	frames := []scripted.Frame{scripted.FrameOf(scripted.KindHeader, channel, append(head, bytes.Repeat([]byte{'p'}, properties)...))}
	for ; body > 0; body -= maxPayload {
		frames = append(frames, scripted.FrameOf(scripted.KindBody, channel, bytes.Repeat([]byte{'b'}, min(maxPayload, body))))
	}
	return frames
}

// withoutContent returns a copy of a header frame. With properties it drops the properties, like boundedConn.
func withoutContent(header scripted.Frame, properties bool) scripted.Frame {
	p := bytes.Clone(header.Payload)
	if properties {
		p = append(p[:ContentHeaderSize-2:ContentHeaderSize-2], 0, 0)
	}
	return scripted.FrameOf(header.Kind, header.Channel, p)
}

// For every stream, read in pieces of any size: boundedConn removes bodies and properties over their bounds, and
// changes no other frame.
func TestBoundedConnDropsLargeContentOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		maxBody := rapid.SampledFrom([]int{0, 50}).Draw(t, "most")
		var stream, want []scripted.Frame
		for range rapid.IntRange(0, 12).Draw(t, "messages") {
			channel := uint16(rapid.IntRange(1, 2).Draw(t, "channel"))
			stream, want = append(stream, confirmSelectOkFrame), append(want, confirmSelectOkFrame)
			properties := rapid.SampledFrom([]int{0, 30, MaxHeader - ContentHeaderSize, MaxHeader,
				3 * muxBuffer}).Draw(t, "properties")
			size := rapid.SampledFrom([]int{0, 1, 49, 50, 51, 3 * muxBuffer}).Draw(t, "body")
			message := contentOf(channel, properties, size,
				rapid.SampledFrom([]int{17, 4000, 2 * muxBuffer}).Draw(t, "room"))
			stream = append(stream, message...)
			header := withoutContent(message[0], properties > MaxHeader-ContentHeaderSize)
			if size > maxBody {
				binary.BigEndian.PutUint64(header.Payload[bodySizeAt:], 0)
				want = append(want, header)
				continue
			}
			want = append(append(want, header), message[1:]...)
		}
		c := newBoundedConn(&recorder{}, maxBody)
		c.reader.Reset(&chunks{t: t, left: scripted.Encode(stream...)})
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
		if got = bytes.ReplaceAll(got, heartbeat[:], nil); !bytes.Equal(got, scripted.Encode(want...)) {
			t.Fatalf("the library reads %d bytes, which differ from the wanted %d bytes", len(got),
				len(scripted.Encode(want...)))
		}
	})
}

// The broker may add both headers anywhere in the table. No content of the table, valid or not, changes the result
// otherwise.
func FuzzLastingSizeIgnoresTheBrokersCounts(f *testing.F) {
	f.Add(uint16(FlagHeaders), []byte("\x04mineS\x00\x00\x00\x01m"), uint8(0))
	f.Add(uint16(FlagHeaders|FlagContentType|FlagUserID), []byte("\x10x-delivery-countS\x00\x00\x00\xff"), uint8(1))
	f.Add(uint16(FlagHeaders|FlagContentEncoding|FlagDeliveryMode), []byte("\x04bool"), uint8(200))
	f.Fuzz(func(t *testing.T, flags uint16, table []byte, cut uint8) {
		payload := func(table []byte) []byte {
			p := binary.BigEndian.AppendUint16(make([]byte, ContentHeaderSize-2), flags)
			for _, flag := range []uint16{FlagContentType, FlagContentEncoding} {
				if flags&flag != 0 {
					p = scripted.ShortText(p, strings.Repeat("c", 255))
				}
			}
			if flags&FlagHeaders != 0 {
				p = append(binary.BigEndian.AppendUint32(p, uint32(len(table))), table...)
			}
			return p
		}
		plain := payload(table)
		if got := lastingSize(plain); got > len(plain)+deliveryMode+userIDAsHeader ||
			got < len(plain)-2*countHeaderSize {
			t.Fatalf("a payload of %d bytes has the lasting size %d", len(plain), got)
		}
		lastingSize(plain[:max(ContentHeaderSize, len(plain)-int(cut))]) // does not panic
		if flags&FlagHeaders == 0 || bytes.Contains(table, []byte("-count")) {
			return
		}
		counts := AppendInt64(AppendInt64(nil, "x-delivery-count", 3), "x-acquired-count", 4)
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
		table = append(scripted.ShortText(table, "mine"), value...)
	}
	table = AppendInt64(AppendInt64(table, "x-delivery-count", 3), "x-delivery-count", 4) // the second one is the sender's
	payload := binary.BigEndian.AppendUint16(make([]byte, ContentHeaderSize-2), FlagHeaders|FlagDeliveryMode)
	payload = append(binary.BigEndian.AppendUint32(payload, uint32(len(table))), table...)
	if got, want := lastingSize(payload), len(payload)-countHeaderSize; got != want {
		t.Errorf("the lasting size is %d, want %d", got, want)
	}
}
