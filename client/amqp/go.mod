module github.com/clockd/clockd/client/amqp

go 1.24.0

require (
	github.com/clockd/clockd/client v0.0.0
	github.com/rabbitmq/amqp091-go v1.16.0
)

replace github.com/clockd/clockd/client => ..
