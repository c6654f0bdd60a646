//go:build unix

package bench

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's interrupt from the child: we stop it ourselves, after what uses it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
