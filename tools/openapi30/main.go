// Command openapi30 writes the contract of clockd in OpenAPI 3.0, for generators of clients that do not take OpenAPI
// 3.1.
//
//	go -C tools run ./openapi30 ../clock/clockhttp/openapi.yaml ../clock/clockhttp/openapi-3.0.yaml
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: openapi30 IN OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi30:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	document, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	flat, err := flatten(document)
	if err != nil {
		return err
	}
	return os.WriteFile(out, flat, 0o644)
}
