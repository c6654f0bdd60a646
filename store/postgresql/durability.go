package postgresql

import (
	"context"

	"github.com/clockd/clockd/store"
)

// Durability reads the settings of a session that writes (ReadDurability).
func (s *Store) Durability(ctx context.Context) ([]store.Finding, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	v, err := s.q.ReadDurability(ctx, s.pool)
	if err != nil {
		return nil, s.mapError("read how durable commits are", err)
	}
	return []store.Finding{
		store.Judge("fsync", v.Fsync, v.Fsync == "on", "what is written reaches the disk",
			"the whole database may be lost when the server's machine dies: set it to on"),
		synchronousCommit(v.SynchronousCommit),
		store.Judge("full_page_writes", v.FullPageWrites, v.FullPageWrites == "on",
			"a page that was half written when the machine died is repaired",
			"a page that was half written when the machine dies is lost, with all rows on it, unless the file system writes whole pages"),
		standbys(v.SynchronousStandbyNames, v.SynchronousCommit),
		store.Isolation(v.Isolation),
	}, nil
}

func synchronousCommit(value string) store.Finding {
	return store.Judge("synchronous_commit", value, value != "off", "a commit is on the server's disk before it is answered",
		"commits of the last second or so are lost when the server dies, though they were answered: set it to on for this role or database")
}

// standbys tells what a failover may lose. It is safe without standbys as well: many have one server, and know it.
func standbys(names, commit string) store.Finding {
	f := store.Finding{Name: "synchronous_standby_names", Value: names, Safe: true, Detail: "a commit is at a standby before it is answered"}
	switch {
	case names == "":
		f.Value = "none"
		f.Detail = "no standby is waited for: a failover to one may lose the last commits, though they were answered"
	case commit == "local" || commit == "off":
		f.Detail = "there are synchronous standbys, but with synchronous_commit = " + commit + " none is waited for: a failover may lose the last commits"
	}
	return f
}
