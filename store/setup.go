package store

import "errors"

// ErrSetup is wrapped by the errors of a database that does not let clockd in, or that cannot be made: the URL, the
// user, the password or the folder of a file is wrong. They are clock.ErrUnavailable as well, because a person may
// repair the database while clockd runs.
var ErrSetup = errors.New("the URL is wrong, or the database does not let clockd in")
