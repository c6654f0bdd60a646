package targettest

import (
	"io"
	"net"

	"golang.org/x/net/http2"
)

// ServeFrames serves a connection of HTTP/2 until its end, as a server that misbehaves: handle gets each frame but
// SETTINGS, which are acknowledged.
func ServeFrames(conn net.Conn, handle func(*http2.Framer, http2.Frame)) {
	if _, err := io.CopyN(io.Discard, conn, int64(len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	_ = framer.WriteSettings()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		settings, is := frame.(*http2.SettingsFrame)
		switch {
		case !is:
			handle(framer, frame)
		case !settings.IsAck():
			_ = framer.WriteSettingsAck()
		}
	}
}
