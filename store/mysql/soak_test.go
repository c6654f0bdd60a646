//go:build soak

package mysql

import (
	"testing"

	"github.com/clockd/clockd/store/storetest"
)

func TestSoakStoreAsMySQL(t *testing.T) { storetest.Run(t, engineAsMySQL()) }
func TestSoakStoreAsTiDB(t *testing.T)  { runAsTiDB(t, false) }
