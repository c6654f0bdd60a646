package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
)

// Config names the node and sets the times of its leases.
type Config struct {
	Name        string        // name of the node, for people; 1 to clock.MaxNodeName bytes
	Incarnation string        // id of this process, unique among all processes
	Version     string        // version of the build, for people
	SecretKeys  []string      // ids of the keys that it has for the secrets of settings; the first encrypts
	Streams     bool          // true: some applications ring to subscribers of this node's streams; false: none do
	TTL         time.Duration // time from a renewal to the lease's end; default 1.5s
	Renew       time.Duration // time between two renewals; default 500ms
	Look        time.Duration // time between two looks, which read all nodes and leases; default 250ms. A node that is alone looks every Renew
	Grace       time.Duration // time for which the node still rings a shard that it yielded; default 1s
}

// DefaultConfig returns the defaults that each field names.
func DefaultConfig() Config {
	return Config{TTL: 1500 * time.Millisecond, Renew: 500 * time.Millisecond, Look: 250 * time.Millisecond,
		Grace: time.Second}
}

// Validate returns the reasons why the configuration is invalid, joined; nil if it is valid.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, reason string) {
		if !ok {
			errs = append(errs, errors.New(reason))
		}
	}
	errs = append(errs, ValidateNodeName(c.Name))
	check(c.Incarnation != "", "a node needs an incarnation")
	check(c.Look >= 10*time.Millisecond && c.Look <= c.Renew,
		"the time between two looks must be at least 10ms, and at most the time between two renewals")
	check(c.TTL >= 2*c.Renew,
		"a lease must last at least twice the time between two renewals, or one slow database call loses it")
	check(c.TTL <= time.Minute,
		"a lease must last at most 1m: no node rings a dead node's shards before its leases end")
	check(c.Grace >= 0 && c.Grace <= c.TTL,
		"the grace of a yielded shard must be from 0 to the time that a lease lasts")
	return errors.Join(errs...)
}

// ValidateNodeName returns why the name is invalid; nil if it is valid.
func ValidateNodeName(name string) error {
	if name == "" || len(name) > clock.MaxNodeName {
		return fmt.Errorf("the node's name has %d bytes, it must have from 1 to %d", len(name), clock.MaxNodeName)
	}
	if !utf8.ValidString(name) || strings.IndexFunc(name, unicode.IsControl) >= 0 {
		return errors.New("the node's name must be UTF-8 without control characters")
	}
	return nil
}
