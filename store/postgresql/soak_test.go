//go:build soak

package postgresql

import (
	"testing"

	"github.com/clockd/clockd/store/storetest"
)

func TestSoakStoreApart(t *testing.T) { storetest.RunApart(t, testedEngine()) }

func TestSoakDistributedStore(t *testing.T) {
	storetest.Run(t, distributedEngine(likeCitusURL))
}

func TestSoakDistributedStoreApart(t *testing.T) {
	storetest.RunApart(t, distributedEngine(likeCitusURL))
}

func TestSoakDistributedStoreAlone(t *testing.T) {
	storetest.RunAlone(t, distributedEngine(likeCitusURL))
}
