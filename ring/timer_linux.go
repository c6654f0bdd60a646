package ring

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerFile is a timer of the kernel's (timerfd_create(2)): the runtime learns of its expiry as of a socket that can be read, and
// so within some ten microseconds.
type timerFile struct {
	file *os.File
	raw  syscall.RawConn
	c    chan time.Time
	spec unix.ItimerSpec // of the Reset under way
	set  func(fd uintptr)
}

// PreciseTimer returns a timer that is less than a tenth of a millisecond late, or one of the runtime's where the kernel gives none.
func PreciseTimer() Timer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newPlainTimer()
	}
	t := &timerFile{file: os.NewFile(uintptr(fd), "timerfd"), c: make(chan time.Time, 1)}
	if t.raw, err = t.file.SyscallConn(); err != nil {
		_ = t.file.Close()
		return newPlainTimer()
	}
	t.set = func(fd uintptr) {
		_ = unix.TimerfdSettime(int(fd), 0, &t.spec, nil) // fails only for what it cannot be here: no timer, or no time
	}
	go t.run()
	t.Reset(0)
	return t
}

// run passes on each expiry until the file is closed.
func (t *timerFile) run() {
	var expiries [8]byte
	for {
		if _, err := t.file.Read(expiries[:]); err != nil {
			return
		}
		select {
		case t.c <- time.Now():
		default: // nobody has taken the one before
		}
	}
}

func (t *timerFile) C() <-chan time.Time { return t.c }

func (t *timerFile) Reset(d time.Duration) {
	t.spec.Value = unix.NsecToTimespec(max(1, d.Nanoseconds())) // zero would stop it
	_ = t.raw.Control(t.set)                                    // fails only once it is closed
}

func (t *timerFile) Stop() { _ = t.file.Close() } // there is nothing to be lost
