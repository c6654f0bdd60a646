package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/clockd/clockd/client"
)

// applyCommand applies the manifests of files.
type applyCommand struct {
	Files []string `arg:"" name:"file" help:"Files with manifests, in YAML or JSON (- for standard input)."`
	clientFlags

	Label    string `placeholder:"NAME" help:"Label of the manifests, instead of the label in the file."`
	DryRun   bool   `help:"Change nothing, and print the changes to make."`
	Prune    bool   `help:"Remove items of earlier manifests of the label that are not in the file."`
	TakeOver bool   `help:"Take items that belong to other labels."`
}

// errManifest says that some items of a manifest were not changed.
var errManifest = errors.New("some items were not changed: see the lines with !, and apply again")

// Run applies the manifest of each application, and prints what changed. If one has a fault, it changes none.
func (a *applyCommand) Run() error {
	f, err := readManifestFiles(a.Files, a.Label)
	if err != nil {
		return usage(err)
	}
	if len(f.applications) == 0 {
		return usagef("%s: no application: to remove all of one, give it an empty manifest, such as shop: {}",
			a.Files[0])
	}
	server, err := a.client()
	if err != nil {
		return err
	}
	if err := a.addEmpty(server, f); err != nil {
		return err
	}
	options := client.ManifestOptions{DryRun: true, Prune: a.Prune, TakeOver: a.TakeOver}
	if !a.DryRun && len(f.applications) > 1 {
		for i := range f.applications {
			if _, err := a.apply(server, f, i, options); err != nil {
				return err
			}
		}
	}
	options.DryRun = a.DryRun
	failed := 0
	for i := range f.applications {
		r, err := a.apply(server, f, i, options)
		if err != nil {
			return err
		}
		if err := a.print(r); err != nil {
			return err
		}
		failed += r.Failed
	}
	if failed > 0 {
		return errManifest
	}
	return nil
}

// addEmpty adds an empty manifest for each other application in which the label has something. With prune its items are
// removed, else they are named as left.
func (a *applyCommand) addEmpty(server *client.Client, f *manifestFile) error {
	named := map[string]bool{}
	for _, application := range f.applications {
		named[application.name] = true
	}
	for r, err := range server.Manifests(context.Background(), "") {
		if err != nil {
			return a.explained(err)
		}
		if r.Label == f.label && !named[r.Application] {
			f.applications = append(f.applications, member{r.Application, []byte("{}")})
		}
	}
	return nil
}

// apply applies the manifest of an application.
func (a *applyCommand) apply(
	server *client.Client, f *manifestFile, i int, options client.ManifestOptions,
) (*client.ManifestResult, error) {
	m := &f.applications[i]
	r, err := server.ApplyManifest(context.Background(), m.name, f.label, m.value, options)
	if err != nil {
		return nil, fmt.Errorf("%s, manifest %s: %w", oneLine(m.name), oneLine(f.label), a.explained(err))
	}
	return r, nil
}

// print prints a result: a line for each item that changes or should, and the changes below it.
func (a *applyCommand) print(r *client.ManifestResult) error {
	if a.JSON {
		return printJSON(stdout, r.Raw)
	}
	var b strings.Builder
	counts := map[client.ManifestAction]int{}
	fmt.Fprintf(&b, "%s, manifest %s:\n", r.Application, r.Label)
	for i := range r.Items {
		item := &r.Items[i]
		if item.Error == nil {
			counts[item.Action]++
		}
		describeItem(&b, item)
	}
	done := "%d created, %d updated, %d removed, %d as before, %d left\n"
	if r.DryRun {
		done = "nothing was changed: %d to create, %d to update, %d to remove, %d as they are, %d left\n"
	}
	fmt.Fprintf(&b, "  "+done, counts[client.ManifestCreate], counts[client.ManifestUpdate],
		counts[client.ManifestRemove], counts[client.ManifestKeep], counts[client.ManifestLeave])
	_, err := fmt.Fprint(stdout, b.String())
	return err
}

// describeItem writes the effect on an item, nothing for an item that stays.
func describeItem(b *strings.Builder, item *client.ManifestItem) {
	name := item.Kind + " " + oneLine(item.Name)
	if item.Error != nil {
		fmt.Fprintf(b, "  ! %s, to %s: %s (%s)\n", name, item.Action, oneLine(item.Error.Detail), item.Error.Code)
		return
	}
	switch item.Action {
	case client.ManifestCreate:
		fmt.Fprintf(b, "  + %s\n", name)
	case client.ManifestUpdate:
		fmt.Fprintf(b, "  ~ %s\n", name)
		for _, c := range item.Changes {
			path := ""
			if c.Path != "" {
				path = oneLine(c.Path) + ": "
			}
			before, after := brief(c.Before, c.After)
			fmt.Fprintf(b, "      %s%s -> %s\n", path, before, after)
		}
		if len(item.Changes) == 0 {
			b.WriteString("      values that are not shown\n")
		}
	case client.ManifestRemove:
		fmt.Fprintf(b, "  - %s\n", name)
	case client.ManifestLeave:
		fmt.Fprintf(b, "  ? %s is no longer in the manifest: --prune removes it\n", name)
	case client.ManifestKeep:
	}
}

// brief returns two JSON values in a line. Of long ones it returns the part where they begin to differ.
func brief(before, after []byte) (was, is string) {
	was, is = oneLine(string(before)), oneLine(string(after))
	const most, shared = 80, 20
	if len(was) > most || len(is) > most {
		same := 0
		for same < min(len(was), len(is)) && was[same] == is[same] {
			same++
		}
		if cut := same - shared; cut > 0 {
			was, is = "..."+strings.ToValidUTF8(was[cut:], ""), "..."+strings.ToValidUTF8(is[cut:], "")
		}
	}
	return shorten(was, most), shorten(is, most)
}

// shorten returns the begin of a long text.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// manifestsCommand lists manifests and their items.
type manifestsCommand struct {
	serverFlags

	Application string `arg:"" optional:"" help:"Only this application; none: all."`
	JSON        bool   `name:"json" help:"Print a JSON object for each manifest."`
}

// Run prints a line for each manifest.
func (m *manifestsCommand) Run() error {
	server, err := m.client()
	if err != nil {
		return err
	}
	table := newTable("APPLICATION\tMANIFEST\tSETTINGS\tDESTINATIONS\tALARMS\tCHANGED AT\tBY")
	if m.JSON {
		table = newTable("")
	}
	for r, err := range server.Manifests(context.Background(), m.Application) {
		if err != nil {
			return errors.Join(table.abort(), m.explained(err))
		}
		if m.JSON {
			if err := printJSON(stdout, r.Raw); err != nil {
				return err
			}
			continue
		}
		if r.Unreadable != "" {
			err = table.row("%s\t-\t-\t-\t-\t-\t%s", r.Application, oneLine(r.Unreadable))
			if err != nil {
				return err
			}
			continue
		}
		counts := map[string]int{}
		for i := range r.Items {
			counts[r.Items[i].Kind]++
		}
		err = table.row("%s\t%s\t%d\t%d\t%d\t%s\t%s", r.Application, r.Label, counts["setting"], counts["destination"],
			counts["alarm"], shown(r.ChangedAt), dash(oneLine(r.ChangedBy)))
		if err != nil {
			return err
		}
	}
	return table.end()
}
