// Package targettest is the conformance suite of targets. Each target runs it against the real thing: a broker,
// subscribers, HTTP servers, workers. For Kafka that is make test-kafka; in make test a library imitates the brokers.
//
//	func TestConformance(t *testing.T) { targettest.Run(t, targettest.Engine{Open: openBench, ...}) }
//
// The suite checks the contract of ring.Target, ring.Lane, ring.Limits and ring.LateRings, one batch at a time. The
// flows of package ring (retries, quarantine, kills) have tests of their own with each kind of target, and so has the
// whole service in cmd/clockd.
//
// RunOthers tests the targets of package httpcall: receivers that hang must not hold up the others.
//
// A target that cannot behave in some way says so in its Engine: a stream has no receiver that refuses, and the
// broker's confirms are late for all applications together. The suite logs the cases that it leaves out. With late
// replies for all applications (LateTogether) some checks are weaker.
package targettest
