package bench

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Host is where the bench ran.
type Host struct {
	Cores     int    `json:"cores"`
	CPU       string `json:"cpu,omitempty"`
	MemoryMiB int64  `json:"memory_mib,omitempty"`
	OS        string `json:"os"`
	Kernel    string `json:"kernel,omitempty"`
	Go        string `json:"go"`
}

func thisHost() Host {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // where there is none, none is told
	return Host{
		Cores: runtime.GOMAXPROCS(0), CPU: procField("/proc/cpuinfo", "model name"), MemoryMiB: procKiB("/proc/meminfo", "MemTotal") / 1024,
		OS: runtime.GOOS + "/" + runtime.GOARCH, Kernel: strings.TrimSpace(string(kernel)), Go: runtime.Version(),
	}
}

// loadAverage returns that of the last minute, as the system writes it; empty where it does not.
func loadAverage() string {
	content, _ := os.ReadFile("/proc/loadavg") // as above
	load, _, _ := strings.Cut(string(content), " ")
	return load
}

// peakRSS returns the most memory that a process had, in bytes.
func peakRSS(pid int) int64 { return procKiB("/proc/"+strconv.Itoa(pid)+"/status", "VmHWM") * 1024 }

// ownTime returns the processor time that this process has used.
func ownTime() time.Duration { return processTime(os.Getpid()) }

// processTime returns the processor time that a process has used, in user mode and in the system.
func processTime(pid int) time.Duration {
	content, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // 0 where the system does not tell
	_, rest, _ := strings.Cut(string(content), ") ")                  // behind the name, which may hold blanks
	const userTicks, systemTicks, tick = 11, 12, 10 * time.Millisecond
	fields := strings.Fields(rest)
	if len(fields) <= systemTicks {
		return 0
	}
	user, _ := strconv.Atoi(fields[userTicks])
	system, _ := strconv.Atoi(fields[systemTicks])
	return time.Duration(user+system) * tick
}

func procKiB(path, name string) int64 {
	number, _, _ := strings.Cut(procField(path, name), " ")
	kib, _ := strconv.ParseInt(number, 10, 64) // 0 where the system does not tell
	return kib
}

// procField returns the value of the first line "name: value" of a file; empty where there is none.
func procField(path, name string) string {
	file, err := os.Open(path) //nolint:gosec // names of the system
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
