package mysql

import (
	"testing"

	"github.com/clockd/clockd/store/storetest"
)

func checkPlans(*testing.T, *storetest.Database) {}
