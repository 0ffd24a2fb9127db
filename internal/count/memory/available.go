package memory

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

const (
	// containerShare leaves a part of the container's memory to things the runtime does
	// not count: buffers of the system, and pages of files.
	containerShare = 0.75
	// A machine has other programs, and a backend may be one of them.
	machineShare = 0.5
)

// detectLimit returns the limit where none is set: a share of the memory that the
// control groups of the process allow or, where they allow all of it, of the machine's
// memory. Without either figure there is no limit.
func detectLimit(files fs.FS) int64 {
	machine := machineMemory(files)
	if group := groupMemory(files); group < machine {
		return int64(containerShare * float64(group))
	}
	if machine == math.MaxInt64 {
		return machine
	}
	return int64(machineShare * float64(machine))
}

// machineMemory reads how much memory the machine has.
func machineMemory(files fs.FS) int64 {
	text, _ := fs.ReadFile(files, "proc/meminfo") // other systems have none
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			if kibibytes, err := strconv.ParseInt(fields[1], 10, 64); err == nil && kibibytes > 0 {
				return kibibytes << 10
			}
		}
	}
	return math.MaxInt64
}

// groupMemory reads how much memory the control groups of the process allow. The least
// limit of its group and of the groups around it holds.
func groupMemory(files fs.FS) int64 {
	least := int64(math.MaxInt64)
	text, _ := fs.ReadFile(files, "proc/self/cgroup") // other systems have none
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		root, file := "sys/fs/cgroup", "memory.max"
		switch {
		case controllers == "":
		case strings.Contains(","+controllers+",", ",memory,"):
			root, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// Within a container the path may be the machine's, which is not there; its own
		// group is at the root then.
		for at := path.Clean("/" + group); ; at = path.Dir(at) {
			least = min(least, readLimit(files, path.Join(root, at, file)))
			if at == "/" {
				break
			}
		}
	}
	return least
}

// readLimit reads a limit from a file; "max", or no file, means no limit.
func readLimit(files fs.FS, name string) int64 {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return math.MaxInt64
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit <= 0 {
		return math.MaxInt64
	}
	return limit
}
