package clock

// ParseTraceparent returns the W3C trace context in the values of a request's header traceparent. It returns the empty
// string for a missing or invalid header, because a wrong trace must not fail a request.
func ParseTraceparent(values []string) string {
	if len(values) != 1 || !validTraceparent(values[0]) {
		return ""
	}
	return values[0]
}

// validTraceparent accepts the form of version 00: version-traceid-parentid-flags in lower-case hexadecimal.
func validTraceparent(s string) bool {
	const zeros = "00000000000000000000000000000000"
	if len(s) != 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, trace, parent, flags := s[:2], s[3:35], s[36:52], s[53:]
	return isHex(version) && version != "ff" && isHex(trace) && trace != zeros &&
		isHex(parent) && parent != zeros[:16] && isHex(flags)
}

// SampledTrace returns the trace id of a valid traceparent whose trace is recorded (its flag sampled is set), else the
// empty string.
func SampledTrace(traceparent string) string {
	if len(traceparent) != 55 || !isOddHex(traceparent[54]) || !validTraceparent(traceparent) { // the cheap checks first: each ring is asked
		return ""
	}
	return traceparent[3:35]
}

// isOddHex reports whether the lowest bit of a hexadecimal digit is set.
func isOddHex(digit byte) bool {
	if digit >= 'a' {
		return (digit-'a')%2 == 1 // b, d, f
	}
	return (digit-'0')%2 == 1
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
