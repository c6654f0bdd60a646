package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestLocalProcessesAreFound(t *testing.T) {
	own := os.Getpid()
	if got := parentOf(own); got != os.Getppid() {
		t.Errorf("parent %d, want %d", got, os.Getppid())
	}
	name := filepath.Base(os.Args[0])
	if got := localProcess(own, "mariadbd", name[:min(len(name), 15)]); got != own { // the kernel keeps 15 characters of a name
		t.Errorf("%s is process %d, want %d", name, got, own)
	}
	if got := localProcess(own, "mariadbd"); got != 0 {
		t.Errorf("process %d is not a server", got)
	}
}

// The machine's processor time covers this process.
func TestMachineTimeCountsAllProcesses(t *testing.T) {
	machine, own := machineTime(), ownTime()
	const enough = 200 * time.Millisecond
	for ownTime()-own < enough && t.Context().Err() == nil {
		runtime.Gosched()
	}
	if used := machineTime() - machine; used < enough/2 {
		t.Errorf("the machine used %s while this process used %s", used, enough)
	}
}

// The processor time of children counts while they run and after their end.
func TestFamilyTimeCountsChildren(t *testing.T) {
	children := func() time.Duration { return familyTime(os.Getpid()) - ownTime() }
	before := children()
	child := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	const enough = 100 * time.Millisecond
	for processTime(child.Process.Pid) < enough && t.Context().Err() == nil {
		runtime.Gosched()
	}
	if used := children() - before; used < enough/2 { // the time of this process grows between the two readings
		t.Errorf("%s with a living child", used)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if used := children() - before; used < enough/2 {
		t.Errorf("%s with an ended child", used)
	}
}
