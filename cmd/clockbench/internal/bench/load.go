package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

const (
	// loadSyncers is the number of files that the load writes and syncs.
	loadSyncers = 2
	// syncedBytes is the number of bytes between two syncs of a file.
	syncedBytes = 64 << 10
	// loadFileBytes is the size of a file. The load then writes it again from its begin.
	loadFileBytes = 16 << 20
)

// Load takes the machine from others until ctx ends: that many busy threads on each core, and files in the folder that
// are written and synced. The folder should be on the disk of the database.
func Load(ctx context.Context, busyPerCore int, folder string) error {
	busy := busyPerCore * runtime.NumCPU()
	runtime.GOMAXPROCS(busy + loadSyncers)
	var workers sync.WaitGroup
	for range busy {
		workers.Go(func() {
			for turns := 0; ctx.Err() == nil; turns++ { // no call blocks, so the thread is always ready to run
				_ = turns
			}
		})
	}
	errs := make([]error, loadSyncers)
	for i := range errs {
		workers.Go(func() { errs[i] = syncFile(ctx, filepath.Join(folder, fmt.Sprint("load", i))) })
	}
	workers.Wait()
	return errors.Join(errs...)
}

// syncFile writes and syncs a file until ctx ends.
func syncFile(ctx context.Context, path string) (err error) {
	file, err := os.Create(path) //nolint:gosec // the caller's folder
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	block := make([]byte, syncedBytes)
	for at := int64(0); ctx.Err() == nil; at = (at + syncedBytes) % loadFileBytes {
		if _, err := file.WriteAt(block, at); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// load is a child process that runs Load.
type load struct {
	child  *child
	folder string
}

// startLoad starts the load in a process of its own, with a new folder.
func startLoad(ctx context.Context, cfg *Config) (*load, error) {
	folder, err := os.MkdirTemp("", "clockd_bench_")
	if err != nil {
		return nil, err
	}
	// the command does not end with ctx, so that stop can tell a failure from the end
	cmd := exec.CommandContext(context.WithoutCancel(ctx), cfg.Baseline, "load", fmt.Sprint(cfg.busyPerCore), folder) //nolint:gosec // clockbench itself
	c := &child{cmd: cmd, log: &logTail{}, done: make(chan struct{}), readAt: make(chan string, 1)}
	detach(cmd)
	cmd.Stderr = c.log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the load: %w", err), os.RemoveAll(folder))
	}
	go c.follow(out)
	return &load{child: c, folder: folder}, nil
}

// stop ends the load and removes its folder. It fails if the load ended by itself.
func (l *load) stop() error {
	var err error
	select {
	case <-l.child.done:
		err = fmt.Errorf("the load ended by itself: %w\n%s", l.child.ended, l.child.log)
	default:
		_ = l.child.cmd.Process.Signal(syscall.SIGTERM)
		if <-l.child.done; l.child.ended != nil {
			err = fmt.Errorf("the load failed: %w\n%s", l.child.ended, l.child.log)
		}
	}
	return errors.Join(err, os.RemoveAll(l.folder))
}
