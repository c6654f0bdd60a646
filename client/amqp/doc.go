// Package amqp consumes the rings of an application whose target is amqp, from its queue at RabbitMQ. It is a module of
// its own, so that package client stays on the standard library alone.
//
//	err := amqp.Consume(ctx, "shop", amqp.Consumer{
//		URL: "amqp://user:password@host:5672/",
//		Handle: func(ctx context.Context, r *amqp.Ring) client.Answer {
//			...
//			return client.Answer{Kind: client.Acked}
//		},
//	})
//
// Consume declares the queue clock.shop (durable, quorum) and binds it, unless Consumer.Queue names a queue of its own.
// It calls Handle once for each message id that it remembers. If the ring needs an answer (Ring.NeedsAnswer), it
// publishes the answer, waits for the broker's confirm, and only then acknowledges the message. So a crash in between
// makes the message come again, and no answer is lost. The broker confirms an answer without a queue too, so Consume
// publishes answers as mandatory, and a returned answer is a fault.
//
// # Failures: effect and recovery
//
//	connection lost            unacknowledged messages come again: copies are       connects again after a random pause of
//	                           recognized by their message id                       up to 5 s
//	broker confirms no answer  the message comes again, and the answer is repeated  the next connection
//	queue for answers missing  the message comes again after a second, and the         a node of the service declares the queue
//	                           answer is repeated; the fault is told to Failed
//	message is not a ring      rejected: the broker drops it or dead-letters it     the fault is told to Failed
//	Handle panics              the program ends: the messages come again            a restart
//
// The account in Consumer.URL and its permissions at RabbitMQ decide what a program may do. Access tokens of the service
// have no use here.
package amqp
