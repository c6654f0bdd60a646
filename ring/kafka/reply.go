package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/clockd/clockd/clock"
)

// noTopicErrors mean that the topic cannot be written to, whatever the record is.
var noTopicErrors = []error{
	kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed,
}

// refusedErrors mean that the broker does not take this batch of records. It may be unknown which record is to blame.
var refusedErrors = []error{
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.CorruptMessage, kerr.InvalidTimestamp,
	kerr.UnsupportedForMessageFormat,
}

// outcomeOf returns the outcome of a record that the client has finished. sent says that a byte of it may have left
// this process.
func outcomeOf(err error, sent bool) clock.Outcome {
	is := func(kinds []error) bool {
		for _, k := range kinds {
			if errors.Is(err, k) {
				return true
			}
		}
		return false
	}
	_, replied := errors.AsType[*kerr.Error](err)
	switch {
	case err == nil:
		return clock.Outcome{Kind: clock.Confirmed}
	case is(noTopicErrors):
		return clock.Outcome{Kind: clock.Returned, Reason: cut(err)}
	case is(refusedErrors):
		return clock.Outcome{Kind: clock.Refused, Reason: cut(err)}
	case replied && !kerr.IsRetriable(err):
		return clock.Outcome{Kind: clock.Nacked, Reason: cut(err)}
	case sent:
		return clock.Outcome{Kind: clock.Doubtful, Reason: cut(err)}
	}
	return clock.Outcome{Kind: clock.Unsent, Reason: cut(err)}
}

// cut returns the text of an error as a reason.
func cut(err error) string {
	text := err.Error()
	return text[:min(len(text), clock.MaxReason)]
}
