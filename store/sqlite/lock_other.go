//go:build !unix

package sqlite

import "os"

// tryLock takes no lock: on these systems start one process first.
func tryLock(*os.File) (bool, error) { return true, nil }
