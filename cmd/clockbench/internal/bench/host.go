package bench

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Host describes the machine on which the bench ran.
type Host struct {
	Cores     int    `json:"cores"`
	CPU       string `json:"cpu,omitempty"`
	MemoryMiB int64  `json:"memory_mib,omitempty"`
	OS        string `json:"os"`
	Kernel    string `json:"kernel,omitempty"`
	Go        string `json:"go"`
}

func thisHost() Host {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // if the file does not exist, Kernel stays empty
	return Host{
		Cores: runtime.GOMAXPROCS(0), CPU: procField("/proc/cpuinfo", "model name"),
		MemoryMiB: procKiB("/proc/meminfo", "MemTotal") / 1024,
		OS:        runtime.GOOS + "/" + runtime.GOARCH, Kernel: strings.TrimSpace(string(kernel)), Go: runtime.Version(),
	}
}

// loadAverage returns the load average of the last minute, as the system writes it; "" if it does not.
func loadAverage() string {
	content, _ := os.ReadFile("/proc/loadavg") // as in thisHost
	load, _, _ := strings.Cut(string(content), " ")
	return load
}

// peakRSS returns the peak memory of a process, in bytes.
func peakRSS(pid int) int64 { return procKiB("/proc/"+strconv.Itoa(pid)+"/status", "VmHWM") * 1024 }

// machineTime returns the processor time that all processes of the machine have used; 0 if the system does not report
// it.
func machineTime() time.Duration {
	content, _ := os.ReadFile("/proc/stat") // as in thisHost
	line, _, _ := strings.Cut(string(content), "\n")
	used := 0
	for i, field := range strings.Fields(line) {
		switch i {
		case 1, 2, 3, 6, 7: // user, nice, system, irq, softirq; not idle, iowait and stolen time
			n, _ := strconv.Atoi(field)
			used += n
		}
	}
	return time.Duration(used) * tick
}

// ownTime returns the processor time that this process has used.
func ownTime() time.Duration { return processTime(os.Getpid()) }

// processTime returns the processor time that a process has used, in user mode and in the system.
func processTime(pid int) time.Duration {
	return time.Duration(statNumber(pid, userTicks)+statNumber(pid, systemTicks)) * tick
}

// familyTime returns the processor time that a process and its children have used, including ended children.
func familyTime(pid int) time.Duration {
	took := processTime(pid) + time.Duration(statNumber(pid, endedUserTicks)+statNumber(pid, endedSystemTicks))*tick
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, path := range processes {
		if child, _ := strconv.Atoi(filepath.Base(path)); parentOf(child) == pid {
			took += processTime(child)
		}
	}
	return took
}

// parentOf returns the id of a process's parent; 0 if the system does not report it.
func parentOf(pid int) int { return statNumber(pid, parent) }

// localProcess returns pid if this machine has a process with this id whose name is listed, else 0.
func localProcess(pid int, names ...string) int {
	content, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm") // as in thisHost
	if !slices.Contains(names, strings.TrimSpace(string(content))) {
		return 0
	}
	return pid
}

// The fields of /proc/PID/stat, by their index after the process's name.
const (
	parent           = 1
	userTicks        = 11
	systemTicks      = 12
	endedUserTicks   = 13 // of ended children
	endedSystemTicks = 14

	tick = 10 * time.Millisecond
)

// statNumber returns the field at an index; 0 if the system does not report it.
func statNumber(pid, place int) int {
	content, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // as in thisHost
	_, rest, _ := strings.Cut(string(content), ") ")                  // the name may contain blanks
	fields := strings.Fields(rest)
	if len(fields) <= place {
		return 0
	}
	n, _ := strconv.Atoi(fields[place])
	return n
}

// diskBytes returns how many bytes a process has written to disks; 0 if the system does not report it.
func diskBytes(pid int) int64 {
	bytes, _ := strconv.ParseInt(procField("/proc/"+strconv.Itoa(pid)+"/io", "write_bytes"), 10, 64) // as in thisHost
	return bytes
}

func procKiB(path, name string) int64 {
	number, _, _ := strings.Cut(procField(path, name), " ")
	kib, _ := strconv.ParseInt(number, 10, 64) // 0 if the system does not report it
	return kib
}

// procField returns the value of the first line "name: value" of a file; "" if there is no such line.
func procField(path, name string) string {
	file, err := os.Open(path) //nolint:gosec // the path is a system file
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
