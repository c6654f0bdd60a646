package clock

import "strconv"

// AnswerKind is the kind of an application's answer to a ring. The numbers are stored.
type AnswerKind int8

// The kinds of answers.
const (
	NoAnswer AnswerKind = 0 // the ring has not been answered
	Ack      AnswerKind = 1 // the ring's work is done
	Release  AnswerKind = 2 // ring again after Delay
	Bury     AnswerKind = 3 // make the alarm dead; a person decides about it
	Touch    AnswerKind = 4 // more time: acknowledge within Delay from now
)

var answerNames = [...]string{NoAnswer: "", Ack: "ack", Release: "release", Bury: "bury", Touch: "touch"}

// String returns the answer's name, as paths, messages and reports use it.
func (k AnswerKind) String() string {
	if k < NoAnswer || k > Touch {
		return "answer(" + strconv.Itoa(int(k)) + ")"
	}
	return answerNames[k]
}
