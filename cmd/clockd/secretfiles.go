package main

import (
	"fmt"
	"os"
	"strings"
)

// secretVariables are the environment variables that may contain a password. Each may be in a file instead: the variable with _FILE at its end
// names it. So a secret need not be in the environment of a process, which its children and its user can read.
var secretVariables = []string{"CLOCKD_DATABASE_URL", "CLOCKD_AMQP_URL", "CLOCKD_AMQP_MANAGEMENT_URL", "CLOCKD_KAFKA_PASSWORD", "CLOCKD_TOKEN"}

// readSecretFiles sets the variables whose files are named. A variable that is set beside its file is an error.
func readSecretFiles() error {
	for _, name := range secretVariables {
		file := os.Getenv(name + "_FILE")
		if file == "" {
			continue
		}
		if os.Getenv(name) != "" {
			return fmt.Errorf("%s and %s_FILE are both set: set one", name, name)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s_FILE: %w", name, err)
		}
		secret := strings.TrimRight(string(content), "\r\n")
		if secret == "" {
			return fmt.Errorf("%s_FILE: %s is empty", name, file)
		}
		if err := os.Setenv(name, secret); err != nil {
			return fmt.Errorf("%s_FILE: %w", name, err)
		}
	}
	return nil
}
