package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
)

// applicationCommand reads and changes the settings of applications. It works on the database, not over HTTP: who only
// reaches a node's port must not send an application's rings elsewhere.
type applicationCommand struct {
	List    applicationListCommand    `cmd:"" help:"List the applications that have settings."`
	Show    applicationShowCommand    `cmd:"" aliases:"get" help:"Show the settings of an application."`
	Set     applicationSetCommand     `cmd:"" help:"Change settings of an application. Settings that are not named stay."`
	Pause   applicationPauseCommand   `cmd:"" help:"Let no alarm of an application ring, and wait until all nodes confirm it."`
	Resume  applicationResumeCommand  `cmd:"" help:"Let the alarms of a paused application ring again."`
	Reset   applicationResetCommand   `cmd:"" help:"Give an application all defaults again."`
	History applicationHistoryCommand `cmd:"" help:"Show the versions of an application's settings."`
}

// settingsFlags select the database and the form of the output.
type settingsFlags struct {
	databaseFlags

	JSON bool `name:"json" help:"Print JSON."`

	timeout time.Duration `kong:"-"` // bound of the command; 0: settingsTimeout
	named   bool          `kong:"-"` // the command has already named the database
}

// settingsArgs name an application.
type settingsArgs struct {
	Name string `arg:"" name:"application" help:"Application the settings belong to."`
	settingsFlags

	remarks bool `kong:"-"` // print a line if nothing of the application is known
}

// settingsTimeout bounds a command.
const settingsTimeout = 30 * time.Second

// withStore opens the database, names it on standard error, and calls do. It neither makes a database nor changes the
// schema.
func (f settingsFlags) withStore(do func(ctx context.Context, st store.Store) error) error {
	st, err := newStore(f.databaseFlags, spareRingConns, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return &configError{reasons: err}
	}
	if err := f.checkExists(); err != nil {
		return errors.Join(err, st.Close())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.timeout, settingsTimeout))
	defer cancel()
	if err := st.Check(ctx); err != nil {
		return errors.Join(fmt.Errorf("open database %s: %w", f.name(), err), st.Close())
	}
	if !f.named {
		_, _ = fmt.Fprintln(stderr, "database:", f.name())
	}
	return errors.Join(do(ctx, st), st.Close())
}

// Run lists the settings.
func (l *applicationListCommand) Run() error {
	return l.withStore(func(ctx context.Context, st store.Store) error {
		all, err := st.AllSettings(ctx)
		if err != nil {
			return err
		}
		if l.JSON {
			return printVersions(all)
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "APPLICATION\tVERSION\tCHANGED\tBY\tSETTINGS")
		for _, v := range all {
			_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", v.Application, v.Version, v.ChangedAt, v.ChangedBy,
				listedDocument(&v))
		}
		return table.Flush()
	})
}

type applicationListCommand struct{ settingsFlags }

type applicationShowCommand struct {
	settingsArgs

	Secrets bool `help:"Show the settings as JSON with the signing secrets and headers of the webhook."`
}

// Run shows the settings.
func (s *applicationShowCommand) Run() error {
	return s.withStore(func(ctx context.Context, st store.Store) error {
		v, err := s.read(ctx, st)
		if err != nil {
			return err
		}
		if v.Version == 0 {
			s.remarkUnknown(ctx, st)
		}
		if s.Secrets {
			_, err = fmt.Fprintln(stdout, cmp.Or(v.Document, "{}"))
			return err
		}
		return s.print(v)
	})
}

// read returns the current settings.
func (s *settingsArgs) read(ctx context.Context, st store.Store) (settings.Version, error) {
	if err := clock.ValidateApplication(s.Name); err != nil {
		return settings.Version{}, usage(err)
	}
	return st.Settings(ctx, s.Name)
}

// print prints one version: as JSON, or in lines for people.
func (s *settingsArgs) print(v settings.Version) error {
	if s.JSON {
		return printValue(versionJSON(&v))
	}
	text, err := describeSettings(&v)
	_, printErr := fmt.Fprint(stdout, text)
	return errors.Join(err, printErr)
}

// describeSettings returns the settings in lines for people. Defaults are marked.
func describeSettings(v *settings.Version) (string, error) {
	if v.Version == 0 {
		return fmt.Sprintf("%s has no settings: all defaults apply\n", v.Application), nil
	}
	text := fmt.Sprintf("%s, version %d, changed at %s by %s\n", v.Application, v.Version, v.ChangedAt, v.ChangedBy)
	s, err := readSettings(v)
	if err != nil {
		return text, err
	}
	line := func(name, value string, given bool) {
		if !given {
			value += " (default)"
		}
		text += fmt.Sprintf("  %-14s %s\n", name, value)
	}
	target := "amqp with a broker, else stream"
	if s.Target != clock.NoTarget {
		target = s.Target.String()
	}
	retry, limit := s.RetryPolicy(), "no limit"
	if retry.Limit != clock.NoLimit {
		limit = fmt.Sprintf("limit %d", retry.Limit)
	}
	ack := "none"
	if s.AckTime(clock.NoTarget) > 0 {
		ack = s.AckTime(clock.NoTarget).String()
	}
	line("target", target, s.Target != clock.NoTarget)
	line("alarm_targets", describeTargets(s.Allowed), len(s.Allowed) > 0)
	line("amqp", describeDestination(s.AMQP), s.AMQP != nil)
	line("webhook", describeWebhook(s.Webhook), s.Webhook != nil)
	line("kafka", describeTopic(s.Kafka), s.Kafka != nil)
	line("grpc", describeMethod(s.GRPC), s.GRPC != nil)
	line("retry", fmt.Sprintf("initial %s, factor %g, cap %s, %s", retry.Initial, retry.Factor, retry.Cap, limit),
		s.Retry != nil)
	line("ack_timeout", ack, s.AckTimeout != nil)
	line("max_rings", fmt.Sprint(s.Rings()), s.MaxRings != nil)
	line("paused", strconv.FormatBool(s.Paused), s.Paused)
	return text, nil
}

// describeTargets returns the targets on one line for people.
func describeTargets(targets []clock.TargetKind) string {
	if len(targets) == 0 {
		return "none: alarms may name no target"
	}
	var names []string
	for _, target := range targets {
		names = append(names, target.String())
	}
	return strings.Join(names, ", ")
}

// changeFlags are the flags of commands that change settings.
type changeFlags struct {
	By        string `env:"CLOCKD_CHANGED_BY" placeholder:"NAME" help:"Who changes the settings, for the history (default: user and host)."`
	IfVersion int64  `default:"-1" placeholder:"N" help:"Condition: the settings have this version (0: none yet)."`
}

type applicationSetCommand struct {
	settingsArgs
	changeFlags
	webhookFlags
	topicFlags
	destinationFlags
	methodFlags

	Target string `placeholder:"NAME" values:"amqp,stream,webhook,kafka,grpc,pull" help:"Where rings go: amqp, stream, webhook, kafka, grpc or pull."`
	// AlarmTargets replaces the list.
	AlarmTargets []string          `placeholder:"NAME" values:"amqp,stream,webhook,kafka,grpc,pull" help:"Targets that an alarm may name for its own rings, beside the application's target."`
	Retry        map[string]string `mapsep:"," placeholder:"initial=1s,factor=2,cap=30s,limit=none" help:"Retry policy of alarms whose set names none; parts that are left out stay."`
	AckTimeout   string            `placeholder:"30s" help:"ack_timeout of alarms whose set names none."`
	MaxRings     *int              `placeholder:"10" help:"max_rings of alarms whose set names none."`
	Unset        []string          `placeholder:"NAME" values:"target,alarm_targets,amqp,webhook,kafka,grpc,retry,ack_timeout,max_rings,paused" help:"Settings that get their default again: target, alarm_targets, amqp, webhook, kafka, grpc, retry, ack_timeout, max_rings, paused."`

	made settings.WebhookSecret `kong:"-"` // signing secret that the change made; "": none
}

// Run changes the settings and shows them. A signing secret that was made is shown once; with --json it goes to
// standard error.
func (s *applicationSetCommand) Run() error {
	err := s.change(&s.changeFlags, s.next)
	if err == nil {
		out := io.Writer(stdout)
		if s.JSON {
			out = stderr
		}
		printSecret(out, s.made)
	}
	return err
}

type applicationResetCommand struct {
	settingsArgs
	changeFlags
}

// Run resets the settings and shows them. The versions go on counting.
func (r *applicationResetCommand) Run() error {
	r.remarks = true
	return r.change(&r.changeFlags, func(settings.Version) (string, error) { return "{}", nil })
}

// change writes the document that next makes of the current settings, and shows the result. Without a condition of its
// own it makes sure that the settings have not changed meanwhile.
func (s *settingsArgs) change(flags *changeFlags, next func(before settings.Version) (string, error)) error {
	by := flags.by()
	if len(by) > settings.MaxChangedBy {
		return usagef("--by has %d bytes; at most %d are kept", len(by), settings.MaxChangedBy)
	}
	return s.withStore(func(ctx context.Context, st store.Store) error {
		if s.remarks {
			s.remarkUnknown(ctx, st)
		}
		const tries = 5
		for try := 1; ; try++ {
			v, err := s.tryChange(ctx, st, by, flags.IfVersion, next)
			if errors.Is(err, clock.ErrPrecondition) && flags.IfVersion == settings.AnyVersion && try < tries {
				continue
			}
			if err != nil {
				return err
			}
			return s.print(v)
		}
	})
}

func (s *settingsArgs) tryChange(
	ctx context.Context, st store.Store, by string, ifVersion int64, next func(before settings.Version) (string, error),
) (settings.Version, error) {
	before, err := s.read(ctx, st)
	if err != nil {
		return before, err
	}
	if ifVersion == settings.AnyVersion {
		ifVersion = before.Version
	}
	document, err := next(before)
	if err != nil {
		return before, err
	}
	if ifVersion == before.Version && document == before.Document {
		_, _ = fmt.Fprintln(stderr, "unchanged")
		return before, nil
	}
	micros, err := st.Time(ctx)
	if err != nil {
		return before, err
	}
	return st.ChangeSettings(ctx, settings.Change{
		Application: s.Name, Document: document, At: clock.Instant(micros / 1000), By: by, IfVersion: ifVersion,
	})
}

// by returns who changes the settings.
func (c *changeFlags) by() string { return personOr(c.By) }

// personOr returns the name, or the name of the person that runs the command.
func personOr(name string) string { return cmp.Or(name, personName()) }

// personName returns the user and host that run the command, for the records of changes.
func personName() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name[:min(len(name), settings.MaxChangedBy)]
}

// errNothingNamed says that the command names no setting.
var errNothingNamed = errors.New("name a setting to change: --target, --alarm-targets, --webhook-url or another flag of the webhook, --amqp, --kafka-topic, --kafka, --grpc-url or another flag of gRPC, --retry, --ack-timeout, --max-rings or --unset")

// next returns the document after the change, and keeps a signing secret that was made for it in s.made.
func (s *applicationSetCommand) next(before settings.Version) (string, error) {
	fields := map[string]any{}
	if before.Version > 0 {
		if _, err := settings.Parse(before.Document); err != nil {
			return "", fmt.Errorf("the present settings cannot be read (%w): reset them first", err)
		}
		if err := json.Unmarshal([]byte(before.Document), &fields); err != nil {
			return "", err
		}
	}
	if s.Target == "" && len(s.AlarmTargets) == 0 && len(s.Retry) == 0 && s.AckTimeout == "" && s.MaxRings == nil &&
		len(s.Unset) == 0 && !s.webhookFlags.named() && !s.topicFlags.named() && !s.destinationFlags.named() &&
		!s.methodFlags.named() {
		return "", usage(errNothingNamed)
	}
	for _, name := range s.Unset {
		if !slices.Contains(settings.Fields, name) {
			return "", usagef("--unset: unknown setting %q; known are %s", name, strings.Join(settings.Fields, ", "))
		}
		delete(fields, name)
	}
	if s.Target != "" {
		fields["target"] = s.Target
	}
	if len(s.AlarmTargets) > 0 {
		fields["alarm_targets"] = s.AlarmTargets
	}
	if s.AckTimeout != "" {
		fields["ack_timeout"] = s.AckTimeout
	}
	if s.MaxRings != nil {
		fields["max_rings"] = *s.MaxRings
	}
	if len(s.Retry) > 0 {
		retry, _ := fields["retry"].(map[string]any)
		fields["retry"] = withRetry(retry, s.Retry)
	}
	if s.webhookFlags.named() {
		endpoint, _ := fields["webhook"].(map[string]any)
		var err error
		if fields["webhook"], s.made, err = s.apply(endpoint); err != nil {
			return "", err
		}
	}
	if s.destinationFlags.named() {
		destination, _ := fields["amqp"].(map[string]any)
		fields["amqp"] = s.applyDestination(destination)
	}
	if s.topicFlags.named() {
		topic, _ := fields["kafka"].(map[string]any)
		fields["kafka"] = s.applyTopic(topic)
	}
	if s.methodFlags.named() {
		method, _ := fields["grpc"].(map[string]any)
		var err error
		if fields["grpc"], err = s.applyMethod(method); err != nil {
			return "", err
		}
	}
	document, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	after, err := settings.Parse(string(document))
	if err != nil {
		return "", usage(withField(err))
	}
	return after.Encode(), nil
}

// withRetry returns a retry policy of a document with the given parts replaced.
func withRetry(retry map[string]any, parts map[string]string) map[string]any {
	if retry == nil {
		retry = map[string]any{}
	}
	for name, value := range parts {
		switch {
		case value == "none":
			retry[name] = nil
		case (name == "factor" || name == "limit") && json.Valid([]byte(value)):
			retry[name] = json.RawMessage(value)
		default:
			retry[name] = value
		}
	}
	return retry
}

// withField adds the field at fault to the error's text.
func withField(err error) error {
	if e, is := errors.AsType[*clock.Error](err); is && e.Field != "" {
		return fmt.Errorf("%w (field %s)", err, e.Field)
	}
	return err
}

type applicationHistoryCommand struct {
	settingsArgs

	Limit int `default:"20" help:"Most versions to show."`
}

// Run shows the newest versions.
func (h *applicationHistoryCommand) Run() error {
	if h.Limit < 1 || h.Limit > settings.MaxHistory {
		return usagef("--limit must be from 1 to %d", settings.MaxHistory)
	}
	return h.withStore(func(ctx context.Context, st store.Store) error {
		if err := clock.ValidateApplication(h.Name); err != nil {
			return usage(err)
		}
		versions, err := st.SettingsHistory(ctx, h.Name, h.Limit)
		if err != nil {
			return err
		}
		if len(versions) == 0 {
			h.remarkUnknown(ctx, st)
		}
		if h.JSON {
			return printVersions(versions)
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "VERSION\tCHANGED\tBY\tSETTINGS")
		for _, v := range versions {
			_, _ = fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", v.Version, v.ChangedAt, v.ChangedBy, listedDocument(&v))
		}
		return table.Flush()
	})
}

// printedVersion is one version of settings as JSON.
type printedVersion struct {
	Application string          `json:"application"`
	Version     int64           `json:"version"`
	ChangedAt   *string         `json:"changed_at"`
	ChangedBy   *string         `json:"changed_by"`
	Settings    json.RawMessage `json:"settings"`             // null if they cannot be read
	Unreadable  string          `json:"unreadable,omitempty"` // why
}

func versionJSON(v *settings.Version) printedVersion {
	p := printedVersion{Application: v.Application, Version: v.Version, Settings: json.RawMessage("{}")}
	if v.Version > 0 {
		at := v.ChangedAt.String()
		p.ChangedAt, p.ChangedBy = &at, &v.ChangedBy
	}
	document, err := shownDocument(v)
	if err != nil {
		p.Settings, p.Unreadable = json.RawMessage("null"), err.Error()
		return p
	}
	p.Settings = json.RawMessage(document)
	return p
}

// printVersions prints each version as one line of JSON.
func printVersions(versions []settings.Version) error {
	for i := range versions {
		if err := printValue(versionJSON(&versions[i])); err != nil {
			return err
		}
	}
	return nil
}

// printValue prints a value as one line of JSON.
func printValue(v any) error { return json.NewEncoder(stdout).Encode(v) }
