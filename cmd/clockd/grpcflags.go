package main

import (
	"fmt"
	"strings"

	"github.com/clockd/clockd/clock/settings"
)

// methodFlags change the method of gRPC of an application.
type methodFlags struct {
	GRPCURL      string            `name:"grpc-url" placeholder:"URL" help:"Server of the method of gRPC: https://host:port, or http://host:port for HTTP/2 in plain text."`
	GRPCMethod   string            `name:"grpc-method" placeholder:"SERVICE/METHOD" help:"Service and method that rings call, as in shop.v1.Alarms/Ring."`
	GRPC         map[string]string `name:"grpc" mapsep:"," placeholder:"timeout=15s,concurrency=16" help:"Parts of the method's settings; parts that are left out stay."`
	GRPCMetadata map[string]string `name:"grpc-metadata" mapsep:"none" placeholder:"NAME=VALUE" help:"Further metadata of each call; an empty value removes it."`
}

// named reports whether any flag is given.
func (f *methodFlags) named() bool {
	return f.GRPCURL != "" || f.GRPCMethod != "" || len(f.GRPC) > 0 || len(f.GRPCMetadata) > 0
}

// applyMethod changes the method of a document, nil if it has none.
func (f *methodFlags) applyMethod(method map[string]any) (map[string]any, error) {
	if method == nil {
		method = map[string]any{}
	}
	for name, value := range f.GRPC {
		if name == "url" || name == "method" || name == "metadata" {
			return nil, usagef("--grpc: %s has a flag of its own: --grpc-%s", name, name)
		}
		method[name] = endpointPart(name, value)
	}
	if f.GRPCURL != "" {
		method["url"] = f.GRPCURL
	}
	if f.GRPCMethod != "" {
		method["method"] = f.GRPCMethod
	}
	method["metadata"] = withHeaders(method["metadata"], f.GRPCMetadata)
	return method, nil
}

// describeMethod returns a method on one line for people. The values of its metadata are left out.
func describeMethod(g *settings.GRPC) string {
	if g == nil {
		return "none"
	}
	return strings.Join([]string{
		g.Method + " at " + g.URL, "timeout " + g.Timeout.String(), fmt.Sprintf("concurrency %d", g.Concurrency),
		fmt.Sprintf("metadata %d", len(g.Metadata)),
	}, ", ")
}
