package main

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// variablePrefix begins the names of all variables of clockd.
const variablePrefix = "CLOCKD_"

// checkVariables reports unknown variables whose names begin with CLOCKD_. To other commands than those of
// checksVariables they are no fault, because a client may run in the environment of another version. There the names
// that are nearly known are printed.
func (s *sources) checkVariables(ctx *kong.Context) {
	selected := ctx.Selected()
	if selected == nil {
		return
	}
	strict := checksVariables(selected.Target.Addr().Interface())
	known := variables(ctx.Model.Node)
	environment := os.Environ()
	slices.Sort(environment)
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) || setByKubernetes(name, value) {
			continue
		}
		near := suggestion(name, known)
		if unknown := fmt.Errorf("%s: there is no such variable%s", name, near); strict {
			s.add(unknown)
		} else if near != "" {
			_, _ = fmt.Fprintf(stderr, "warning: %s\n", unknown)
		}
	}
}

func checksVariables(command any) bool {
	switch command.(type) {
	case *serveCommand, *migrateCommand, *configCommand:
		return true
	}
	return false
}

// variables returns the names of all variables of clockd.
func variables(root *kong.Node) (names []string) {
	_ = kong.Visit(root, func(node kong.Visitable, next kong.Next) error {
		if flag, is := node.(*kong.Flag); is {
			names = append(names, flag.Envs...)
		}
		return next(nil)
	})
	for _, name := range secretVariables {
		names = append(names, name+fileSuffix)
	}
	return names
}

// Kubernetes sets variables for each service of a namespace. Those of a service whose name begins with clockd begin
// like ours.
var (
	kubernetesService = regexp.MustCompile(`^CLOCKD_([A-Z0-9_]+_)?SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$`)
	kubernetesPort    = regexp.MustCompile(`^CLOCKD_([A-Z0-9_]+_)?PORT$`)
	kubernetesLink    = regexp.MustCompile(`^CLOCKD_([A-Z0-9_]+_)?PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)
	kubernetesURL     = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// setByKubernetes reports whether Kubernetes sets the variable.
func setByKubernetes(name, value string) bool {
	return kubernetesService.MatchString(name) || kubernetesLink.MatchString(name) ||
		kubernetesPort.MatchString(name) && kubernetesURL.MatchString(value)
}

// suggestion returns the question whether the person meant the nearest known name, "" if none is near.
func suggestion(name string, known []string) string {
	nearest, least := "", math.MaxInt
	for _, candidate := range known {
		if !isNear(strings.TrimPrefix(name, variablePrefix), strings.TrimPrefix(candidate, variablePrefix)) {
			continue
		}
		if n := edits(name, candidate); n < least {
			nearest, least = candidate, n
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", nearest)
}
