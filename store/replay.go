package store

import "errors"

// ErrReplay ends a transaction whose rows changed after it read them. The transaction is rolled back and runs again.
var ErrReplay = errors.New("rows changed meanwhile")
