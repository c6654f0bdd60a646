package ring

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerFile is a kernel timer (timerfd_create(2)). The runtime sees its expiry like a readable socket, within some ten
// microseconds.
type timerFile struct {
	file *os.File
	raw  syscall.RawConn
	c    chan time.Time
	spec unix.ItimerSpec // argument of the Reset under way
	set  func(fd uintptr)
}

// PreciseTimer returns a timer that is less than a tenth of a millisecond late. If the kernel offers no such timer, it
// returns a timer of the Go runtime.
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
		_ = unix.TimerfdSettime(int(fd), 0, &t.spec, nil) // fails only for a descriptor that is no timer, or for an invalid time
	}
	go t.run()
	t.Reset(0)
	return t
}

// run sends each expiry to the channel until the file is closed.
func (t *timerFile) run() {
	var expiries [8]byte
	for {
		if _, err := t.file.Read(expiries[:]); err != nil {
			return
		}
		select {
		case t.c <- time.Now():
		default: // the value of an earlier expiry is still in the channel
		}
	}
}

func (t *timerFile) C() <-chan time.Time { return t.c }

func (t *timerFile) Reset(d time.Duration) {
	t.spec.Value = unix.NsecToTimespec(max(1, d.Nanoseconds())) // zero would stop the timer
	_ = t.raw.Control(t.set)                                    // fails only after Stop
}

func (t *timerFile) Stop() { _ = t.file.Close() } // a closed timer holds no data to lose
