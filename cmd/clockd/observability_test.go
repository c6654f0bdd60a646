package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/clockd/clockd/clock/clockhttp"
)

const observability = "../../deploy/observability/"

// registeredMetrics returns the names of all metrics that clockd registers, with RabbitMQ and Kafka as targets. Nothing
// is started.
func registeredMetrics(t *testing.T) map[string]bool {
	t.Helper()
	var flags serveFlags
	parser, err := kong.New(&flags)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{
		"--database-url", sqliteFile(t), "--amqp-url", "amqp://127.0.0.1:1/", "--kafka-brokers", "127.0.0.1:1",
	}); err != nil {
		t.Fatal(err)
	}
	cfg, err := newConfig(flags)
	if err != nil {
		t.Fatal(err)
	}
	log, reg := slog.New(slog.DiscardHandler), newRegistry()
	cfg.http.Listen = "127.0.0.1:0"
	cfg.http.TLS.Cert, cfg.http.TLS.Key = newAuthority(t).issueIn()
	port, err := clockhttp.Listen(t.Context(), cfg.http, log, reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Close)
	st, err := openStore(t.Context(), cfg, log, reg, unreported)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if err := fx.New(options(cfg, log, reg, st, port)).Err(); err != nil {
		t.Fatal(err)
	}
	descs, names := make(chan *prometheus.Desc), map[string]bool{}
	go func() { reg.Describe(descs); close(descs) }()
	name := regexp.MustCompile(`^Desc\{fqName: "([^"]+)"`)
	for d := range descs {
		names[name.FindStringSubmatch(d.String())[1]] = true
	}
	return names
}

// Parts of a PromQL expression that have no metric names, in the order in which metricNames removes them.
var withoutMetrics = []*regexp.Regexp{
	regexp.MustCompile(`"(\\.|[^"\\])*"|'(\\.|[^'\\])*'|` + "`[^`]*`"),                                           // texts
	regexp.MustCompile(`\{[^}]*\}`),                                                                              // label matchers
	regexp.MustCompile(`\[[^\]]*\]`),                                                                             // ranges
	regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`),                          // label names
	regexp.MustCompile(`\b(and|or|unless|bool|offset|group_left|group_right|atan2|inf|nan|Inf|NaN|start|end)\b`), // keywords and numbers
	regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(`),                                                          // functions and aggregations
	regexp.MustCompile(`\b(sum|min|max|avg|count|topk|bottomk|quantile|stddev|group)\b`),                         // aggregations before by
	regexp.MustCompile(`\b[0-9][0-9a-zA-Z_.]*`),                                                                  // numbers and durations
}

// metricNames returns the metric names in a PromQL expression.
func metricNames(expr string) []string {
	for _, part := range withoutMetrics {
		expr = part.ReplaceAllString(expr, " ")
	}
	return regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`).FindAllString(expr, -1)
}

// unknownMetrics returns the metric names in an expression that are not registered. Prometheus itself makes up.
func unknownMetrics(expr string, registered map[string]bool) (unknown []string) {
	for _, name := range metricNames(expr) {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if name != "up" && !registered[name] && !registered[base] {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// expressions returns the expressions of the alert rules and of the dashboards, by file.
func expressions(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	rules, err := os.ReadFile(observability + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(rules)) {
		if _, expr, is := strings.Cut(line, " expr: "); is {
			found["alerts.yaml"] = append(found["alerts.yaml"], strings.TrimSpace(expr))
		}
	}
	dashboards, err := filepath.Glob(observability + "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range dashboards {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard any
		if err := json.Unmarshal(b, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[filepath.Base(file)] = exprMembers(dashboard)
	}
	return found
}

// exprMembers returns the members named expr, at any depth.
func exprMembers(v any) (exprs []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if text, is := member.(string); is && name == "expr" {
				exprs = append(exprs, text)
			}
			exprs = append(exprs, exprMembers(member)...)
		}
	case []any:
		for _, element := range v {
			exprs = append(exprs, exprMembers(element)...)
		}
	}
	return exprs
}

func TestAlertsAndDashboardsNameOnlyRegisteredMetrics(t *testing.T) {
	t.Parallel()
	registered, files := registeredMetrics(t), expressions(t)
	for file, least := range map[string]int{"alerts.yaml": 12, "clockd.json": 35} {
		if len(files[file]) < least {
			t.Errorf("%s has %d expressions, want at least %d", file, len(files[file]), least)
		}
	}
	for file, exprs := range files {
		for _, expr := range exprs {
			if len(metricNames(expr)) == 0 {
				t.Errorf("%s: no metric was found in %q", file, expr)
			}
			for _, name := range unknownMetrics(expr, registered) {
				t.Errorf("%s: clockd registers no metric %s: %q", file, name, expr)
			}
		}
	}
}

func TestMetricNamesOfExpressions(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`up{job="clockd"} == 0`: "up",
		`histogram_quantile(0.99, sum by (le, route) (rate(a_seconds_bucket{route=~"set.*"}[5m]))) > 5`:                            "a_seconds_bucket",
		`sum without(instance) (x) / on(job) group_left(node) sum(rate(y{a="b_total(c)"}[$__rate_interval] offset 1h)) > bool 1e3`: "x y",
		`x != x`: "x x", `max by (health) (u{h!="absent"}) unless v or w`: "u v w", `sum(x) by (le)`: "x",
	} {
		if got := strings.Join(metricNames(expr), " "); got != want {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
	registered := map[string]bool{"a_seconds": true, "b_total": true}
	if got := unknownMetrics(`a_seconds_count + b_total + up + c_total + a_second_sum`, registered); !slices.Equal(got, []string{"c_total", "a_second_sum"}) {
		t.Errorf("unknown: %q", got)
	}
}
