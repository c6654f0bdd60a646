package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/clockd/clockd/clock"
)

// noTopicErrors mean that the topic cannot be written to, whatever the record is.
var noTopicErrors = []error{
	kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed,
}

// refusedErrors mean that the broker takes no record of this batch, and has not taken it before. It may be unknown which
// one is to blame.
var refusedErrors = []error{
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.UnsupportedForMessageFormat,
}

// lateRefusedErrors mean the same of this try. The broker may have taken the batch before, without a reply.
var lateRefusedErrors = []error{kerr.CorruptMessage, kerr.InvalidTimestamp}

// outcomeOf returns the outcome of a record that the client has finished. sent says that a byte of it may have left
// this process.
func outcomeOf(err error, topic string, sent bool) clock.Outcome {
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
		return clock.Outcome{Kind: clock.Returned, Reason: reasonOf(err, topic)}
	case is(refusedErrors) && !sent: // by the client
		return clock.Outcome{Kind: clock.Refused, Unstored: true,
			Reason: fmt.Sprintf("the record has more than %d bytes, the most that clockd sends", maxRecordBytes)}
	case is(refusedErrors):
		return clock.Outcome{Kind: clock.Refused, Unstored: true, Reason: reasonOf(err, topic)}
	case is(lateRefusedErrors):
		return clock.Outcome{Kind: clock.Refused, Reason: reasonOf(err, topic)}
	case replied && !kerr.IsRetriable(err):
		return clock.Outcome{Kind: clock.Nacked, Reason: reasonOf(err, topic)}
	case sent:
		return clock.Outcome{Kind: clock.Doubtful, Reason: cut(err)}
	}
	return clock.Outcome{Kind: clock.Unsent, Reason: cut(err)}
}

// reasonOf returns the text of a broker's error, which does not name the topic.
func reasonOf(err error, topic string) string { return cut(fmt.Errorf("topic %s: %w", topic, err)) }

// cut returns the text of an error as a reason.
func cut(err error) string {
	text := err.Error()
	return text[:min(len(text), clock.MaxReason)]
}
