package processes

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt makes the supervisor the parent of all processes that its descendants leave behind,
// also of processes in a session of their own.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// closeFiles keeps inherited files from the process, which the starter of the gateway left
// open.
func closeFiles() { _ = unix.CloseRange(controlFile, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) }

// attributes puts the process into a group of its own, and has it killed should somebody
// kill its supervisor.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killAll kills everything that descends from the supervisor.
func (s *supervisor) killAll() {
	if !s.ended.Load() { // otherwise another group may have its number
		_ = syscall.Kill(-s.pid, syscall.SIGKILL)
	}
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if parent, isAlive := parentOf(pid); isAlive {
			children[parent] = append(children[parent], pid)
		}
	}
	found := children[os.Getpid()]
	for len(found) > 0 {
		pid := found[0]
		found = append(found[1:], children[pid]...)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// parentOf returns the parent of a process.
func parentOf(pid int) (parent int, isAlive bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// The name in parentheses, which may be anything, is followed by state and parent.
	_, rest, ok := bytes.Cut(stat[max(bytes.LastIndexByte(stat, ')'), 0):], []byte(") "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
