package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// subscribe takes the rings of the application from the stream of server-sent events into the tally. Several
// subscribers share the stream. It returns when all subscribers are connected.
func subscribe(ctx context.Context, base string, t *tally) (*consumer, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &consumer{stop: cancel}
	for range streamReaders {
		res, err := openStream(ctx, base)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.wait.Go(func() {
			defer func() { _ = res.Body.Close() }()
			if err := readEvents(res.Body, t); ctx.Err() == nil {
				c.fail(fmt.Errorf("the stream ended: %w", err))
			}
		})
	}
	return c, nil
}

func openStream(ctx context.Context, base string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/applications/"+application+"/rings",
		http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("subscribe to the stream: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("subscribe to the stream: %s", res.Status)
	}
	return res, nil
}

// readEvents reads events into the tally until the stream ends.
func readEvents(body io.Reader, t *tally) error {
	in := bufio.NewReaderSize(body, 256<<10)
	data := []byte("data: ")
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if event, is := bytes.CutPrefix(line, data); is {
			t.take(eventOf(event))
		}
	}
}

// eventOf extracts the checked fields from an event. The bench's events contain no escapes and end with the payload, so
// eventOf does not parse JSON. That saves time, because the reader shares its cores with the measured service.
func eventOf(event []byte) *ring {
	return &ring{
		messageID: textAfter(event, `"message_id":"`), businessID: textAfter(event, `"business_id":"`),
		payload: payloadOf(event), at: time.Now(),
	}
}

// textAfter returns the text between the mark and the next quote.
func textAfter(event []byte, mark string) []byte {
	_, rest, _ := bytes.Cut(event, []byte(mark))
	text, _, _ := bytes.Cut(rest, []byte{'"'})
	return text
}

func payloadOf(event []byte) []byte {
	_, rest, _ := bytes.Cut(event, []byte(`"payload":`))
	return bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("}"))
}
