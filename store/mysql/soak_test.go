//go:build soak

package mysql

import (
	"testing"

	"github.com/clockd/clockd/store/storetest"
)

func TestSoakStoreApart(t *testing.T)        { storetest.RunApart(t, testedEngine()) }
func TestSoakStoreAsMySQL(t *testing.T)      { storetest.Run(t, engineAsMySQL()) }
func TestSoakStoreAsMySQLApart(t *testing.T) { storetest.RunApart(t, engineAsMySQL()) }
func TestSoakStoreAsTiDB(t *testing.T)       { storetest.Run(t, engineAsTiDB(t)) }
func TestSoakStoreAsTiDBApart(t *testing.T)  { storetest.RunApart(t, engineAsTiDB(t)) }
