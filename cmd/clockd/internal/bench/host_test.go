package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestProcesses(t *testing.T) {
	own := os.Getpid()
	if got := parentOf(own); got != os.Getppid() {
		t.Errorf("parent %d, want %d", got, os.Getppid())
	}
	name := filepath.Base(os.Args[0])
	if got := localProcess(own, "mariadbd", name[:min(len(name), 15)]); got != own { // the kernel keeps 15 letters
		t.Errorf("%s is process %d, want %d", name, got, own)
	}
	if got := localProcess(own, "mariadbd"); got != 0 {
		t.Errorf("process %d is not a server", got)
	}
}

// What children use counts, while they live and after.
func TestFamilyTime(t *testing.T) {
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
	if used := children() - before; used < enough/2 { // ours grows between the readings
		t.Errorf("%s with a living child", used)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if used := children() - before; used < enough/2 {
		t.Errorf("%s with an ended child", used)
	}
}
