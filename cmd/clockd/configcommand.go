package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
)

// configCommand shows the configuration of the service.
type configCommand struct {
	serveFlags

	JSON bool `name:"json" help:"Print JSON."`
}

// configures marks a command that reports all faults of the configuration.
func (*configCommand) configures() {}

// shownSetting is a setting with its value and where the value comes from.
type shownSetting struct {
	Name     string `json:"name"`
	Variable string `json:"variable"`
	Value    string `json:"value"`            // without secrets
	Source   string `json:"source"`           // default, flag, environment or file
	Origin   string `json:"origin,omitempty"` // flag or variable that sets the value
	File     string `json:"file,omitempty"`   // file that has the value
}

// Run prints the configuration, then its mistakes. A setting with a faulty value is shown with its default.
func (c *configCommand) Run(parsed *kong.Context, values *sources) error {
	c.RingBatch = cmp.Or(c.RingBatch, defaultRingBatch(c.DatabaseURL))
	if err := c.print(values.settings(parsed)); err != nil {
		return err
	}
	if _, err := values.configure(parsed, &c.serveFlags); err != nil {
		return err
	}
	values.warnReadable(c.logger())
	return nil
}

func (c *configCommand) print(settings []shownSetting) error {
	if c.JSON {
		raw, err := json.Marshal(map[string]any{"settings": settings})
		if err != nil {
			return err
		}
		return printJSON(stdout, raw)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "SETTING\tVALUE\tSOURCE")
	for _, s := range settings {
		from := s.Source
		switch {
		case s.Origin != "" && s.File != "":
			from = s.Origin + " (" + s.File + ")"
		case s.Origin != "" || s.File != "":
			from = s.Origin + s.File
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, dash(s.Value), from)
	}
	return table.Flush()
}

// settings returns the settings of the selected command, in the order of its flags.
func (s *sources) settings(ctx *kong.Context) (all []shownSetting) {
	for _, flag := range ctx.Selected().Flags {
		if len(flag.Envs) == 0 {
			continue
		}
		from, given := s.origins[flag]
		if !given {
			from.kind = fromDefault
		}
		shown := shownSetting{Name: flag.Name, Variable: flag.Envs[0], Source: from.kind, File: from.file}
		if shown.Value = shownValue(flag.Envs[0], valueText(flag)); from.kind == fromFlag ||
			from.kind == fromEnvironment {
			shown.Origin = from.name
		}
		all = append(all, shown)
	}
	return all
}

// valueText returns the value of a flag as a person would write it.
func valueText(flag *kong.Flag) string {
	switch v := flag.Target.Interface().(type) {
	case time.Duration:
		text := v.String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		return text
	case []string:
		return strings.Join(v, ",")
	default:
		return fmt.Sprint(v)
	}
}

// shownValue returns the value of a variable without secrets.
func shownValue(variable, value string) string {
	switch {
	case value == "":
		return ""
	case strings.HasSuffix(variable, "_URL") || variable == "CLOCKD_OTLP_ENDPOINT":
		return shownURL(value)
	case strings.HasSuffix(variable, "_PASSWORD") || strings.HasSuffix(variable, "_TOKEN") ||
		variable == "CLOCKD_SECRET_KEY":
		return "(not shown)"
	}
	return value
}
