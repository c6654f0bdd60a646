package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// secretVariables are the environment variables that may contain a password. Each may be in a file instead: the
// variable with _FILE at its end names it. So a secret need not be in the environment of a process, which its children
// and its user can read.
var secretVariables = []string{"CLOCKD_DATABASE_URL", "CLOCKD_AMQP_URL", "CLOCKD_AMQP_MANAGEMENT_URL",
	"CLOCKD_KAFKA_PASSWORD", "CLOCKD_TOKEN", "CLOCKD_SECRET_KEY", "CLOCKD_OIDC_CLIENT_SECRET"}

// fileSuffix ends the name of a variable that names the file of a secret.
const fileSuffix = "_FILE"

// secretFile is a file that a variable names.
type secretFile struct{ path, content string }

// readSecretFiles returns the files that are named, by the variable whose value they have. A variable that is set
// beside its file is an error. Files of variables that no flag has are not read: a service needs no token.
func readSecretFiles(flags []*kong.Flag) (map[string]secretFile, error) {
	files := map[string]secretFile{}
	var errs []error
	for _, name := range secretVariables {
		path := os.Getenv(name + fileSuffix)
		reads := func(f *kong.Flag) bool { return slices.Contains(f.Envs, name) }
		if path == "" || !slices.ContainsFunc(flags, reads) {
			continue
		}
		if os.Getenv(name) != "" {
			errs = append(errs, fmt.Errorf("%s and %s%s are both set: set one", name, name, fileSuffix))
			continue
		}
		content, err := os.ReadFile(path)
		secret := strings.TrimRight(string(content), "\r\n")
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s%s: %w", name, fileSuffix, err))
		case secret == "":
			errs = append(errs, fmt.Errorf("%s%s: %s is empty", name, fileSuffix, path))
		default:
			files[name] = secretFile{path: path, content: secret}
		}
	}
	return files, errors.Join(errs...)
}
