package rabbit

import (
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

// nested returns depth arrays in each other.
func nested(depth int) any {
	var value any = int32(1)
	for range depth {
		value = []any{value}
	}
	return value
}

// numbered returns n headers.
func numbered(n int) amqp.Table {
	t := amqp.Table{}
	for i := range n {
		t[fmt.Sprint("h", i)] = true
	}
	return t
}

// unreadable returns headers that RabbitMQ takes, and that the library does not read: too deep, too wide, and too many
// with one more.
func unreadable() []amqp.Table {
	return []amqp.Table{{"deep": nested(61)}, {"wide": slices.Repeat([]any{true}, 9000)}, numbered(8191)}
}
