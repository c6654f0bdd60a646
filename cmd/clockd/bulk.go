package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/clockd/clockd/client"
)

// bulkCommand changes many alarms by a filter.
type bulkCommand struct {
	Count bulkCountCommand `cmd:"" help:"Count the alarms that a filter selects. Nothing changes."`
	Start bulkStartCommand `cmd:"" help:"Start a job that changes the alarms, and follow it."`
	Show  bulkShowCommand  `cmd:"" help:"Show a job."`
	Stop  bulkStopCommand  `cmd:"" help:"Stop a job. Alarms that it has changed stay changed."`
	List  bulkListCommand  `cmd:"" help:"List the newest jobs."`
}

// bulkFlags are a filter and what happens to its alarms.
type bulkFlags struct {
	Application string `arg:"" help:"Application whose alarms change."`
	Action      string `arg:"" enum:"cancel,kick,discard,pause,resume,shift" help:"What happens to them: cancel, kick, discard, pause, resume or shift."`
	clientFlags

	State     []string `placeholder:"STATE,..." values:"scheduled,ringing,paused,dead,expired" help:"Only alarms in these states: scheduled, ringing, paused, dead, expired."`
	Prefix    string   `help:"Only alarms whose business id begins with this text."`
	DueAfter  string   `placeholder:"TIME" help:"Only alarms due at this time or later."`
	DueBefore string   `placeholder:"TIME" help:"Only alarms due before this time."`
	Later     string   `xor:"shift" placeholder:"30m" help:"With shift: ring later by this time."`
	Earlier   string   `xor:"shift" placeholder:"30m" help:"With shift: ring earlier by this time."`
	FrozenAt  string   `placeholder:"TIME" help:"Leave alarms that were created after this time, as count has printed it (default: now)."`
}

func (b *bulkFlags) filter() (f client.BulkFilter, err error) {
	f = client.BulkFilter{Application: b.Application, Action: client.BulkAction(b.Action), States: states(b.State),
		Prefix: b.Prefix}
	if f.DueAfter, err = instantFlag("due-after", b.DueAfter); err != nil {
		return f, err
	}
	if f.DueBefore, err = instantFlag("due-before", b.DueBefore); err != nil {
		return f, err
	}
	if f.FrozenAt, err = instantFlag("frozen-at", b.FrozenAt); err != nil {
		return f, err
	}
	if f.Shift, err = durationFlag("later", b.Later); err != nil || b.Earlier == "" {
		return f, err
	}
	earlier, err := durationFlag("earlier", b.Earlier)
	f.Shift = -earlier
	return f, err
}

type bulkCountCommand struct{ bulkFlags }

// Run counts, and prints the number with some business ids.
func (b *bulkCountCommand) Run() error {
	filter, err := b.filter()
	if err != nil {
		return err
	}
	c, err := b.client()
	if err != nil {
		return err
	}
	s, err := c.CountBulk(context.Background(), filter)
	if err != nil {
		return b.explained(err)
	}
	if s.Count == 0 && s.Complete {
		defer b.remarkUnknown(b.Application)
	}
	if b.JSON {
		return printValue(s)
	}
	more := ""
	if !s.Complete {
		more = " or more"
	}
	_, err = fmt.Fprintf(stdout, "%d%s alarms of %s as of %s: %s\n", s.Count, more, b.Application, shown(s.FrozenAt),
		dash(strings.Join(s.Samples, ", ")))
	return err
}

type bulkStartCommand struct {
	bulkFlags

	By     string `env:"CLOCKD_CHANGED_BY" placeholder:"NAME" help:"Who starts the job, where no token is needed (default: the client's address). A token has its own name."`
	Note   string `placeholder:"TEXT" help:"Why, at most 300 bytes. The job has it, and a paused alarm shows it in last_error."`
	Detach bool   `help:"Do not wait for the end of the job."`
}

// Run starts a job, and prints its progress until it ends.
func (b *bulkStartCommand) Run() error {
	filter, err := b.filter()
	if err != nil {
		return err
	}
	filter.By, filter.Note = b.By, b.Note
	c, err := b.client()
	if err != nil {
		return err
	}
	job, err := c.StartBulk(context.Background(), filter)
	if err != nil {
		return b.explained(err)
	}
	if !b.Detach {
		if job, err = b.follow(c, job); err != nil {
			return b.explained(err)
		}
		if job.Changed == 0 && len(job.Refused) == 0 {
			defer b.remarkUnknown(b.Application)
		}
	}
	return b.printJob(stdout, job)
}

// follow reads the job until it ends. It prints the progress to standard error.
func (b *bulkStartCommand) follow(c *client.Client, job *client.BulkJob) (*client.BulkJob, error) {
	const interval = 500 * time.Millisecond
	for printed := time.Now(); job.EndedAt.IsZero(); {
		time.Sleep(interval)
		next, err := c.Bulk(context.Background(), job.ID)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("job %s goes on", job.ID), err)
		}
		if job = next; time.Since(printed) > 5*time.Second {
			printed = time.Now()
			_, _ = fmt.Fprintf(stderr, "job %s: %d changed\n", job.ID, job.Changed)
		}
	}
	return job, nil
}

// bulkJobArgs name a job.
type bulkJobArgs struct {
	ID string `arg:"" name:"job" help:"Id of the job."`
	clientFlags
}

type bulkShowCommand struct{ bulkJobArgs }

// Run prints the job.
func (b *bulkShowCommand) Run() error { return b.run((*client.Client).Bulk) }

type bulkStopCommand struct{ bulkJobArgs }

// Run stops the job and prints it.
func (b *bulkStopCommand) Run() error { return b.run((*client.Client).StopBulk) }

func (b *bulkJobArgs) run(call func(*client.Client, context.Context, string) (*client.BulkJob, error)) error {
	c, err := b.client()
	if err != nil {
		return err
	}
	job, err := call(c, context.Background(), b.ID)
	if err != nil {
		return b.explained(err)
	}
	return b.printJob(stdout, job)
}

func (f clientFlags) printJob(out io.Writer, job *client.BulkJob) error {
	if f.JSON {
		return printJSON(out, job.Raw)
	}
	_, err := fmt.Fprintf(out, "job %s is %s: %s of alarms of %s, %s\n", job.ID, job.Status, job.Action,
		job.Application, jobResult(job))
	return err
}

// jobResult returns the numbers of a job for people.
func jobResult(job *client.BulkJob) string {
	text := fmt.Sprintf("%d changed", job.Changed)
	for _, code := range slices.Sorted(maps.Keys(job.Refused)) {
		text += fmt.Sprintf(", %d refused (%s)", job.Refused[code], code)
	}
	return text
}

type bulkListCommand struct {
	clientFlags

	Application string `placeholder:"NAME" help:"Only jobs of this application."`
}

// Run prints a table, or with --json one line for each job.
func (b *bulkListCommand) Run() error {
	c, err := b.client()
	if err != nil {
		return err
	}
	jobs, err := c.BulkJobs(context.Background(), b.Application)
	if err != nil {
		return b.explained(err)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if !b.JSON {
		_, _ = fmt.Fprintln(table, "JOB\tSTATUS\tACTION\tAPPLICATION\tBY\tCREATED\tENDED\tRESULT")
	}
	for _, j := range jobs {
		if b.JSON {
			err = printJSON(stdout, j.Raw)
		} else {
			_, err = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", j.ID, j.Status, j.Action, j.Application,
				dash(j.By), shown(j.CreatedAt), dash(shown(j.EndedAt)), jobResult(j))
		}
		if err != nil {
			return err
		}
	}
	return table.Flush()
}
