package clockhttp

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// lineClient streams lines to the server and reads results, in full duplex.
type lineClient struct {
	t    testing.TB
	in   *io.PipeWriter
	resp *http.Response
	out  *bufio.Scanner
}

func (h *harness) stream(headers ...string) *lineClient {
	h.t.Helper()
	body, in := io.Pipe()
	r, err := http.NewRequestWithContext(h.t.Context(), "POST", h.url+alarms, body)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", ndjsonType)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	resp, err := h.client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	c := &lineClient{t: h.t, in: in, resp: resp, out: bufio.NewScanner(resp.Body)}
	h.t.Cleanup(func() {
		_ = in.CloseWithError(errors.New("the test is over"))
		_ = resp.Body.Close()
	})
	return c
}

func (c *lineClient) send(lines string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, lines); err != nil {
		c.t.Errorf("send: %v", err)
	}
}

// next returns the next result after a check against the contract.
func (c *lineClient) next() (itemResult, error) {
	if !c.out.Scan() {
		return itemResult{}, errors.Join(io.EOF, c.out.Err())
	}
	if err := validateSchema("LineResult", c.out.Bytes()); err != nil {
		c.t.Errorf("%s breaks the contract: %v", c.out.Bytes(), err)
	}
	var r itemResult
	return r, json.Unmarshal(c.out.Bytes(), &r)
}

func (c *lineClient) expect(line int, want string) {
	c.t.Helper()
	r, err := c.next()
	if err != nil || r.Line != line || r.String() != want {
		c.t.Errorf("result: line %d %q, %v; want line %d %q", r.Line, r, err, line, want)
	}
}

func (c *lineClient) expectEnd() {
	c.t.Helper()
	if c.out.Scan() || c.out.Err() != nil {
		c.t.Errorf("want a normal end, got %s, %v", c.out.Bytes(), c.out.Err())
	}
}

func (c *lineClient) expectCut() {
	c.t.Helper()
	for c.out.Scan() {
	}
	if !errors.Is(c.out.Err(), io.ErrUnexpectedEOF) {
		c.t.Errorf("want a stream cut short, got %v", c.out.Err())
	}
}
