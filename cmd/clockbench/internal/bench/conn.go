package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// httpConn is a keep-alive connection that sends one request at a time. It does as little work as possible, because the
// client shares its cores with the measured server.
type httpConn struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	host string
	base string // path of the application's alarms, or of its rings
}

// dialTimeout bounds the dial of a connection. exchangeTimeout bounds a request with its response.
const (
	dialTimeout     = 5 * time.Second
	exchangeTimeout = 60 * time.Second
)

func dialHTTP(ctx context.Context, base string) (*httpConn, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	c := &httpConn{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), host: u.Host}
	c.use(application)
	return c, nil
}

// use makes the next requests change the alarms of this application.
func (c *httpConn) use(application string) { c.base = "/v1/applications/" + application + "/alarms" }

// useRings makes the next requests go to the rings of the application.
func (c *httpConn) useRings(application string) {
	c.base = "/v1/applications/" + application + "/rings"
}

func (c *httpConn) close() { _ = c.conn.Close() }

// head begins a request in out. path is relative to base.
func (c *httpConn) head(method string, path []byte) {
	c.out = append(append(c.out[:0], method...), ' ')
	c.out = append(append(c.out, c.base...), path...)
	c.out = append(append(append(c.out, " HTTP/1.1\r\nHost: "...), c.host...), "\r\n"...)
}

// send completes the request with a body (nil: none) and returns the status of the response. read receives the response
// body; if read is nil, the body is skipped.
func (c *httpConn) send(body []byte, read func(io.Reader) error) (status int, err error) {
	if body != nil {
		c.out = append(c.out, "Content-Type: application/json\r\nContent-Length: "...)
		c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
		c.out = append(c.out, "\r\n"...)
	}
	c.out = append(append(c.out, "\r\n"...), body...)
	if err := c.conn.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return 0, err
	}
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if read == nil {
		_, err = io.Copy(io.Discard, res.Body)
	} else {
		err = read(res.Body)
	}
	return res.StatusCode, err
}

// put sets one alarm.
func (c *httpConn) put(id, body []byte) error {
	c.head(http.MethodPut, append([]byte{'/'}, id...))
	status, err := c.send(body, nil)
	return expect(status, err, http.StatusCreated)
}

// cancel cancels one alarm.
func (c *httpConn) cancel(id []byte) error {
	c.head(http.MethodDelete, append([]byte{'/'}, id...))
	status, err := c.send(nil, nil)
	return expect(status, err, http.StatusOK)
}

func expect(status int, err error, want int) error {
	if err == nil && status != want {
		return fmt.Errorf("the server responded %d, not %d", status, want)
	}
	return err
}
