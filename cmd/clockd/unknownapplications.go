package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/client"
)

// An application exists without being made, so a command for a misspelt one succeeds. It then says on standard error
// that nothing of the application is known. With more than mostLooked applications, and when the look fails, it says
// nothing.
const (
	mostLooked  = 2000
	lookPage    = 500 // most applications of a page of the service
	lookTimeout = 3 * time.Second
)

// unknownApplication returns a line for people if the application is none of the known ones, else "".
func unknownApplication(application string, known []string) string {
	if slices.Contains(known, application) {
		return ""
	}
	return fmt.Sprintf("no alarm and no setting of %s is known yet%s", application, suggestion(application, known))
}

// findApplication asks the service for the application. It returns the application as listed, or a line for people that
// nothing of it is known. Both are empty if that cannot be found out.
func (f serverFlags) findApplication(
	ctx context.Context, application string,
) (listed *client.Application, unknown string) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c, err := f.client(client.WithTries(1), client.WithTryTimeout(lookTimeout))
	if err != nil {
		return nil, ""
	}
	var known []string
	for filter := (client.ApplicationFilter{Limit: lookPage}); ; {
		page, err := c.ApplicationPage(ctx, filter)
		if err != nil {
			return nil, ""
		}
		for _, a := range page.Applications {
			if a.Name == application {
				return a, ""
			}
			known = append(known, a.Name)
		}
		if filter.Cursor = page.NextCursor; filter.Cursor == "" {
			break
		}
		if len(known) >= mostLooked {
			return nil, ""
		}
	}
	// The list leaves out applications that the token does not cover. For these the service refuses another read.
	if page, err := c.Page(ctx, application, client.Filter{Limit: 1}); err != nil || len(page.Alarms) > 0 {
		return nil, ""
	}
	return nil, unknownApplication(application, known)
}

// remarkUnknown prints a line if nothing of the application is known. Commands call it after an empty result.
func (f serverFlags) remarkUnknown(application string) {
	if _, unknown := f.findApplication(context.Background(), application); unknown != "" {
		_, _ = fmt.Fprintln(stderr, unknown)
	}
}

// orUnknown returns the error of a call. It adds a line if the cause may be a misspelt application, and nothing of the
// application is known.
func (f serverFlags) orUnknown(application string, err error) error {
	e, is := errors.AsType[*client.Error](err)
	if !is ||
		!slices.Contains([]string{client.CodeUnknownAlarm, client.CodeUnknownRing, client.CodeRingsElsewhere}, e.Code) {
		return err
	}
	if _, unknown := f.findApplication(context.Background(), application); unknown != "" {
		return fmt.Errorf("%w\n%s", err, unknown)
	}
	return err
}
