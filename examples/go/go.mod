module github.com/clockd/clockd/examples/go

go 1.26.0

require (
	github.com/clockd/clockd/client v0.0.0
	github.com/clockd/clockd/client/amqp v0.0.0
	google.golang.org/grpc v1.84.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/rabbitmq/amqp091-go v1.16.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261005182115-fad411399dd8 // indirect
)

replace (
	github.com/clockd/clockd/client => ../../client
	github.com/clockd/clockd/client/amqp => ../../client/amqp
)
