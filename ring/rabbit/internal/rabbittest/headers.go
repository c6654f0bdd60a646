package rabbittest

import (
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Nested returns depth arrays in each other.
func Nested(depth int) any {
	var value any = int32(1)
	for range depth {
		value = []any{value}
	}
	return value
}

// Numbered returns n headers.
func Numbered(n int) amqp.Table {
	t := amqp.Table{}
	for i := range n {
		t[fmt.Sprint("h", i)] = true
	}
	return t
}

// Unreadable returns headers that RabbitMQ takes, and that the library does not read: too deep, too wide, and too many
// with one more.
func Unreadable() []amqp.Table {
	return []amqp.Table{{"deep": Nested(61)}, {"wide": slices.Repeat([]any{true}, 9000)}, Numbered(8191)}
}
