//go:build unix

package bench

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's interrupt from the child. The bench stops the child itself, after everything that uses
// it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
