package main

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
)

// retryFlag reads the parts of a retry policy, nil without any. Parts that are left out have their defaults.
func retryFlag(parts map[string]string) (*client.Retry, error) {
	if len(parts) == 0 {
		return nil, nil //nolint:nilnil // no policy is no error
	}
	var r client.Retry
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if err := setRetryPart(&r, name, parts[name]); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

// setRetryPart sets one part of a policy.
func setRetryPart(r *client.Retry, name, value string) (err error) {
	switch name {
	case "initial":
		r.Initial, err = waitPart(name, value)
	case "cap":
		r.Cap, err = waitPart(name, value)
	case "factor":
		if r.Factor, err = strconv.ParseFloat(value, 64); err != nil || r.Factor == 0 {
			return usagef("--retry: factor must be a number from 1 to 100, not %q", value)
		}
	case "limit":
		r.Limit, err = limitPart(value)
	default:
		return usagef("--retry: unknown part %q; known are initial, factor, cap and limit", name)
	}
	return err
}

// waitPart reads a wait between tries. The server refuses waits out of range, but 0 means the default to it.
func waitPart(name, value string) (time.Duration, error) {
	wait, err := clock.ParseDuration(value)
	if err == nil && wait == 0 {
		err = errors.New("must be more than 0")
	}
	if err != nil {
		return 0, usagef("--retry: %s: %w", name, err)
	}
	return wait, nil
}

// limitPart reads a number of retries, nil for none.
func limitPart(value string) (*int, error) {
	if value == "none" {
		return nil, nil //nolint:nilnil // no limit is no error
	}
	limit, err := strconv.Atoi(value)
	if err != nil {
		return nil, usagef("--retry: limit must be a whole number or none, not %q", value)
	}
	return &limit, nil
}
