package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/clockd/clockd/client"
)

// printRing prints a ring as one line: for people, or as the server wrote it.
func printRing(r *client.Ring, asJSON bool) error {
	if asJSON {
		return printJSON(stdout, r.Raw)
	}
	answer := ""
	if r.AckTimeout > 0 {
		answer = fmt.Sprintf(" (answer within %s)", r.AckTimeout)
	}
	_, err := fmt.Fprintf(stdout, "%s %s rings, message %s, due %s%s: %s\n",
		shown(r.RungAt), r.BusinessID, r.MessageID, shown(r.RingAt), answer, payloadLine(r.Payload))
	return err
}

// payloadLine returns a payload as one line.
func payloadLine(p client.Payload) string {
	switch p.Kind() {
	case client.NoPayload:
		return "none"
	case client.BinaryPayload:
		return base64.StdEncoding.EncodeToString(p.Bytes())
	case client.JSONPayload:
		var line bytes.Buffer
		if json.Compact(&line, p.Bytes()) == nil {
			return line.String()
		}
	case client.TextPayload:
	}
	if text := p.String(); strings.ContainsAny(text, "\n\t") {
		return strconv.Quote(text)
	}
	return p.String()
}
