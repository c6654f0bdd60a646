//go:build soak

package postgresql

import (
	"testing"

	"github.com/clockd/clockd/store/storetest"
)

func TestSoakDistributedStoreApart(t *testing.T) {
	storetest.RunApart(t, distributedEngine(likeCitusURL))
}

func TestSoakDistributedStoreAlone(t *testing.T) {
	storetest.RunAlone(t, distributedEngine(likeCitusURL))
}
