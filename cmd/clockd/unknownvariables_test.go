package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestUnknownVariablesAreRefusedWithTheNearestName(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"serve", "migrate", "config"} {
		wantLines(t, refused(t, []string{"CLOCKD_DATABSE_URL=sqlite:x", "CLOCKD_FROBNICATE=hidden", "CLOCKD_PORT=8080", "CLOCKD_AMQP_URL_FIEL=x"}, command),
			"CLOCKD_DATABSE_URL: there is no such variable, did you mean CLOCKD_DATABASE_URL?",
			"CLOCKD_FROBNICATE: there is no such variable",
			"CLOCKD_PORT: there is no such variable",
			"CLOCKD_AMQP_URL_FIEL: there is no such variable, did you mean CLOCKD_AMQP_URL_FILE?")
	}
}

// TestVariablesOfKubernetesAndOfClientsAreAccepted has the variables that Kubernetes sets for the services clockd and
// clockd-metrics.
func TestVariablesOfKubernetesAndOfClientsAreAccepted(t *testing.T) {
	t.Parallel()
	env := []string{"CLOCKD_DATABASE_URL=sqlite:" + filepath.Join(t.TempDir(), "clockd.db"),
		"CLOCKD_SERVER=http://127.0.0.1:1", "CLOCKD_TOKEN=t", "CLOCKD_CHANGED_BY=me"}
	for _, service := range []string{"CLOCKD_", "CLOCKD_METRICS_"} {
		for _, setting := range []string{
			"SERVICE_HOST=10.0.0.1", "SERVICE_PORT=8080", "SERVICE_PORT_HTTP=8080", "PORT=tcp://10.0.0.1:8080",
			"PORT_8080_TCP=tcp://10.0.0.1:8080",
			"PORT_8080_TCP_PROTO=tcp", "PORT_8080_TCP_PORT=8080", "PORT_8080_TCP_ADDR=10.0.0.1",
			"PORT_53_UDP_ADDR=10.0.0.1",
		} {
			env = append(env, service+setting)
		}
	}
	if out, code := typed(t, env, "migrate"); code != 0 {
		t.Errorf("exit code %d, printed\n%s", code, out)
	}
}

// variablesOfTheRepository are the variables of its scripts, tests and samples, which no clockd reads.
var variablesOfTheRepository = regexp.MustCompile(`^CLOCKD_((TEST|SERVICES|CITUS|PACKAGE|ROOTS)(_|$)|(MARIADB|POSTGRESQL|RABBITMQ)_(IMAGE|PORT)$)`)

// misspeltExample is the unknown variable in docs/configuration.md.
const misspeltExample = "CLOCKD_DATABSE_URL"

// TestVariablesInDocumentsExist reads the documents and the samples of deploy/.
func TestVariablesInDocumentsExist(t *testing.T) {
	t.Parallel()
	known := variables(newParser(new(sources)).Model.Node)
	root := filepath.Join("..", "..")
	files, found := []string{filepath.Join(root, "README.md")}, 0
	for _, folder := range []string{"docs", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && (folder == "deploy" || filepath.Ext(path) == ".md") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bCLOCKD_[A-Z0-9_]*[A-Z0-9](_?\.\.\.)?`).FindAllString(string(text), -1) {
			found++
			if strings.HasSuffix(name, "...") || variablesOfTheRepository.MatchString(name) ||
				slices.Contains(known, name) ||
				setByKubernetes(name, "tcp://") || name == misspeltExample {
				continue
			}
			t.Errorf("%s names the variable %s, which does not exist", file, name)
		}
	}
	if found < 100 {
		t.Errorf("only %d variables are found in %d files", found, len(files))
	}
}

// A command of a client warns of a variable whose name is nearly known: otherwise it would ask the server of the
// default.
func TestClientsWarnOfMisspeltVariables(t *testing.T) {
	t.Parallel()
	out, err := command([]string{"CLOCKD_SERVR=http://127.0.0.1:1", "CLOCKD_SERVER=http://127.0.0.1:1", "CLOCKD_FROBNICATE=x"}, "get", "shop", "order-1").CombinedOutput()
	if err == nil ||
		!strings.Contains(string(out), "warning: CLOCKD_SERVR: there is no such variable, did you mean CLOCKD_SERVER?\n") || strings.Contains(string(out), "FROBNICATE") {
		t.Errorf("%v, printed %s", err, out)
	}
}
