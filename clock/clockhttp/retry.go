package clockhttp

import (
	"strconv"

	"github.com/clockd/clockd/clock"
)

// retryFields are the fields of retry, in the order of their bits.
var retryFields = []string{"initial", "factor", "cap", "limit"}

func (d *setDecoder) retry(raw []byte) error {
	if isNull(raw) {
		return nil
	}
	d.body.set.Omitted &^= clock.RetryOption
	ms, ok := objectMembers(raw)
	if !ok {
		return wrongType("retry", `an object like {"initial": "1s", "factor": 2, "cap": "30s", "limit": null}`, raw)
	}
	seen, err := ms.each("retry.",
		func(name string, value []byte) error { return decodeRetryField(&d.body.set.Retry, name, value) })
	if err != nil {
		return err
	}
	return d.body.set.Retry.CheckDefaultCap(seen["cap"])
}

func decodeRetryField(p *clock.RetryPolicy, name string, raw []byte) error {
	switch name {
	case "initial":
		return decodeDuration(raw, "retry.initial", &p.Initial)
	case "cap":
		return decodeDuration(raw, "retry.cap", &p.Cap)
	case "factor":
		return decodeFactor(raw, &p.Factor)
	case "limit":
		return decodeLimit(raw, &p.Limit)
	}
	return unknownField("retry.", name, append([]string(nil), retryFields...))
}

func decodeFactor(raw []byte, into *float64) error {
	switch {
	case isNull(raw):
		return nil
	case !isNumber(raw):
		return wrongType("retry.factor", "a number from 1 to 100", raw)
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return clock.Invalid(clock.CodeOutOfRange, "retry.factor", "retry.factor must be from 1 to 100")
	}
	*into = f
	return nil
}

// decodeLimit reads null as no limit. It refuses the domain's own number for no limit, because that number is negative.
func decodeLimit(raw []byte, into *int) error {
	if isNull(raw) {
		*into = clock.NoLimit
		return nil
	}
	var n int
	if err := decodeInt(raw, "retry.limit", &n); err != nil {
		return err
	}
	if n < 0 {
		return clock.Invalid(clock.CodeOutOfRange, "retry.limit",
			"retry.limit must not be negative; null means no limit")
	}
	*into = n
	return nil
}
