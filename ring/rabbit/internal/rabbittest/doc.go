// Package rabbittest has what the tests of RabbitMQ share: a connection of the test's own with an exchange for this
// test only, a private broker that a test may stop, block or reconfigure, and a proxy that stalls or cuts connections.
//
// The brokers are real. Package scripted is the broker whose frames a test decides.
package rabbittest
