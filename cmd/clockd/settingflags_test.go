package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

// setOf returns `application set shop` with the arguments, parsed.
func setOf(t *testing.T, args ...string) *applicationSetCommand {
	t.Helper()
	parsed, err := newParser(new(sources)).Parse(append([]string{"application", "set", "shop"}, args...))
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	set, is := parsed.Selected().Target.Addr().Interface().(*applicationSetCommand)
	if !is {
		t.Fatalf("%q is another command: %s", args, parsed.Command())
	}
	return set
}

// oneSetting is a database with the settings of one application.
type oneSetting struct {
	store.Store // nil: only the methods below are called
	settings.Version
}

func (o *oneSetting) AllSettings(context.Context) ([]settings.Version, error) {
	return []settings.Version{o.Version}, nil
}

func (o *oneSetting) Settings(context.Context, string) (settings.Version, error) {
	return o.Version, nil
}

func (o *oneSetting) SettingsHistory(context.Context, string, int) ([]settings.Version, error) {
	return nil, nil
}

func (o *oneSetting) ChangeSettings(_ context.Context, c settings.Change) (settings.Version, error) {
	o.Version = settings.Version{Application: c.Application, Version: c.IfVersion + 1, Document: c.Document}
	return o.Version, nil
}

// after returns the document after the command. before "": the application never had settings.
func after(t *testing.T, set *applicationSetCommand, before string) (string, error) {
	t.Helper()
	stored := &oneSetting{Version: settings.Version{Application: "shop", Document: before}}
	if before != "" {
		stored.Version.Version = 1
	}
	home := &storedHome{Store: stored, editor: settings.NewEditor(settings.EditorDeps{Form: settingsForm, Stored: stored,
		Now: func(context.Context) (clock.Instant, error) { return 1, nil }})}
	_, err := set.changeAt(t.Context(), home, settings.AnyVersion, set.next)
	return stored.Document, err
}

const (
	settingsSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	newerSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
)

func TestSettingFlagsChangeTheDocument(t *testing.T) {
	t.Parallel()
	const (
		hook   = `{"webhook":{"url":"https://a.example/","secrets":["` + settingsSecret + `"]}}`
		method = `{"grpc":{"url":"https://a.example","method":"a.B/C","metadata":{"a":"b","c":"d"},"timeout":"3s"}}`
	)
	for _, c := range []struct{ before, args, after string }{
		{`{}`, `--target=stream`, `{"target":"stream"}`},
		{`{"max_rings":2}`, `--alarm-targets=pull,stream --max-rings=3 --ack-timeout=90s`,
			`{"alarm_targets":["stream","pull"],"ack_timeout":"1m30s","max_rings":3}`},
		{`{"retry":{"initial":"2s","limit":7}}`, `--retry=factor=1.5,limit=none`,
			`{"retry":{"initial":"2s","factor":1.5,"cap":"30s","limit":null}}`},
		{`{"target":"stream","max_rings":2,"paused":true}`, `--unset=target,paused`, `{"max_rings":2}`},
		{`{}`, `--amqp=exchange=orders`, `{"amqp":{"exchange":"orders"}}`},
		{`{"amqp":{"exchange":"orders"}}`, `--amqp=routing_key=none`, `{"amqp":{"exchange":"orders","routing_key":"none"}}`},
		{`{}`, `--kafka-topic=rings --kafka=key=none`, `{"kafka":{"topic":"rings","key":"none","headers":"full"}}`},
		{`{"kafka":{"topic":"rings","key":"none"}}`, `--kafka=headers=lean`,
			`{"kafka":{"topic":"rings","key":"none","headers":"lean"}}`},
		{method, `--grpc=concurrency=3 --grpc-metadata=a= --grpc-metadata=e=f,g=h --grpc-method=a.B/D`,
			`{"grpc":{"url":"https://a.example","method":"a.B/D","metadata":{"c":"d","e":"f,g=h"},"timeout":"3s","concurrency":3}}`},
		{hook, `--webhook-secret=` + newerSecret, `{"webhook":{"url":"https://a.example/","method":"POST","body":"payload",` +
			`"timeout":"15s","concurrency":16,"secrets":["` + newerSecret + `","` + settingsSecret + `"]}}`},
		{hook, `--webhook-secret=` + newerSecret + ` --webhook-drop-secrets --webhook=method=PUT`,
			`{"webhook":{"url":"https://a.example/","method":"PUT","body":"payload",` +
				`"timeout":"15s","concurrency":16,"secrets":["` + newerSecret + `"]}}`},
		{method, `--grpc-alarm-field=url=https://b.example --grpc-alarm-field=url=https://c.example ` +
			`--grpc-alarm-field=metadata=x=*`,
			`{"grpc":{"url":"https://a.example","method":"a.B/C","metadata":{"a":"b","c":"d"},"timeout":"3s","concurrency":16,` +
				`"alarm_fields":{"url":["https://b.example","https://c.example"],"metadata":["x=*"]}}}`},
		{`{"amqp":{"alarm_fields":{"exchange":["a"],"headers":["*"]}}}`,
			`--amqp-alarm-field=exchange= --amqp-header=x=y --amqp=expiration=10m`,
			`{"amqp":{"headers":{"x":"y"},"expiration":"10m","alarm_fields":{"headers":["*"]}}}`},
		{hook, `--unset=webhook --max-rings=1`, `{"max_rings":1}`},
		{`{"max_rings":2}`, `--hide-payload`, `{"max_rings":2,"hide_payload":true}`},
		{`{"max_rings":2,"hide_payload":true}`, `--unset=hide_payload`, `{"max_rings":2}`},
	} {
		set := setOf(t, strings.Fields(c.args)...)
		got, err := after(t, set, c.before)
		if err != nil || got != c.after || set.made != "" {
			t.Errorf("%s after %s:\n%s, %v, made %q, want\n%s", c.before, c.args, got, err, set.made, c.after)
		}
	}
}

func TestEndpointWithoutSecretGetsOne(t *testing.T) {
	t.Parallel()
	set := setOf(t, "--webhook-url=https://a.example/")
	got, err := after(t, set, "")
	if err != nil || !strings.HasPrefix(set.made, "whsec_") || !strings.Contains(got, `"secrets":["`+set.made+`"]`) {
		t.Errorf("%s, %v, made %q", got, err, set.made)
	}
}

func TestWrongSettingFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{``, `name a setting to change: --target, --alarm-targets, --amqp, --amqp-header, --amqp-alarm-field, --webhook, --webhook-url, `},
		{`--unset=colour`, `unknown setting "colour"; known are target, alarm_targets, amqp, `},
		{`--webhook=url=https://a.example/`, `--webhook: url has a flag of its own: --webhook-url`},
		{`--webhook=headers=x`, `--webhook: headers has a flag of its own: --webhook-header`},
		{`--kafka=topic=a`, `--kafka: topic has a flag of its own: --kafka-topic`},
		{`--kafka=acks=all`, `unknown field "acks"; known are topic, key, headers, alarm_fields (field kafka.acks)`},
		{`--grpc=timeout=none`, `url is required, such as https://shop.example:8443 (field grpc.url)`},
		{`--grpc=concurrency=many`, `concurrency must be a whole number (field grpc.concurrency)`},
		{`--target=kafka`, `the target kafka needs a topic (field kafka)`},
		{`--max-rings=0`, `(field max_rings)`},
		{`--amqp-alarm-field=exchange`, `--amqp-alarm-field must be NAME=VALUE, and NAME one of: exchange, routing_key, headers`},
		{`--amqp-alarm-field=queue=a`, `--amqp-alarm-field must be NAME=VALUE, and NAME one of: exchange, routing_key, headers`},
		{`--amqp-alarm-field=exchange=a*b`, `may have a * at its end alone (field amqp.alarm_fields.exchange[0])`},
	} {
		_, err := after(t, setOf(t, strings.Fields(c.args)...), "")
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, new(*usageError)) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}

// The names of flags are part of the interface.
func TestSettingFlagsKeepTheirNames(t *testing.T) {
	t.Parallel()
	var set settingFlags
	set.makeFor(settingsForm)
	names := strings.Split(set.names(), ", ")
	const known = "--target --alarm-targets --amqp --webhook --webhook-url --webhook-header --webhook-secret --webhook-drop-secrets" +
		" --kafka --kafka-topic --grpc --grpc-url --grpc-method --grpc-metadata --retry --ack-timeout --max-rings --hide-payload --unset"
	for _, name := range strings.Fields(known) {
		if !slices.Contains(names, name) {
			t.Errorf("there is no flag %s, only %q", name, names)
		}
	}
}
