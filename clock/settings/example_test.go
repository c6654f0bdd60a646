package settings_test

import (
	"errors"
	"fmt"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// queue is the value of a part: where a target with queues puts the rings of an application.
type queue struct {
	Name  string
	Order string
}

// queuePart is the part of that target.
var queuePart = &settings.Part[queue]{
	Name: "queue", Target: clock.TargetKafka, Needs: "a queue",
	New: func() *queue { return &queue{Order: "fifo"} },
	Fields: []settings.Field[queue]{
		settings.Text(settings.FieldInfo{Name: "name", Required: true, Max: 64, Example: "orders"},
			func(q *queue) *string { return &q.Name }, nil),
		settings.Choice(settings.FieldInfo{Name: "order"}, func(q *queue) *string { return &q.Order }, "fifo", "none"),
	},
}

// A target brings its part. A document has what a person decides; everything else has its default.
func ExamplePart() {
	form := settings.NewForm(queuePart)
	s, err := form.Parse(`{"target":"kafka","queue":{"name":"orders"},"max_rings":3}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Target, *queuePart.Of(&s), s.Rings(), s.RetryPolicy().Cap)

	_, err = form.Parse(`{"queue":{"name":"orders","order":"lifo"}}`)
	var wrong *clock.Error
	if errors.As(err, &wrong) {
		fmt.Println(wrong.Field, wrong.Code, wrong.Detail)
	}
	// Output:
	// kafka {orders fifo} 3 30s
	// queue.order invalid_value order must be fifo or none
}

// What applies to an application has all members.
func ExampleForm_Effective() {
	fmt.Println(settings.NewForm().Effective(&settings.Settings{}, clock.TargetStream))
	// Output: {"target":"stream","alarm_targets":[],"destinations":null,"retry":{"initial":"1s","factor":2,"cap":"30s","limit":null},"ack_timeout":null,"max_rings":10,"quotas":null,"hide_payload":false,"paused":false}
}
