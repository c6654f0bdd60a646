//go:build soak

package ring_test

import "testing"

func TestSoakQuarantinedApplicationsDoNotWaitForEachOther(t *testing.T) {
	testQuarantinedApplications(t, 50, 4)
}
