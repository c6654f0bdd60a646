//go:build soak

package ring_test

import "testing"

func TestSoakQuarantinedApplicationsDoNotWaitForEachOther(t *testing.T) {
	testQuarantinedApplications(t, 50, 4)
}

func TestSoakBrokenWebhooksDelayNoOtherApplication(t *testing.T) {
	testBrokenWebhooks(t, 30)
}

func TestSoakSlowTargetDelaysNoOtherTarget(t *testing.T) {
	testSlowTarget(t, 3, 5)
}
