package memory

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ReleaseProgram takes the pages of the program itself, its code and its constants,
// out of the process. The ones that are needed again come back by themselves, from the
// file or from the system's memory of it. It is called when the program has started:
// more than half of what starting has touched is never needed again, but would count as
// memory of the process for as long as it runs.
func ReleaseProgram() error {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("releasing the pages of the program: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("releasing the pages of the program: %w", err)
	}
	for line := range bytes.Lines(maps) {
		from, length := unchangedPart(line, path)
		if length == 0 {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, length, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("releasing the pages of the program: %w", errno)
		}
	}
	return nil
}

// unchangedPart returns where a part of a file lies that is never written to, from its
// line in /proc/self/maps, such as
//
//	00400000-01b7a000 r-xp 00000000 fe:01 1234  /usr/bin/patchbay
//
// The length is 0 for everything else.
func unchangedPart(line []byte, path string) (from, length uintptr) {
	fields := bytes.Fields(line)
	if len(fields) < 6 || !bytes.HasSuffix(bytes.TrimSpace(line), []byte(" "+path)) || len(fields[1]) < 2 || fields[1][1] != '-' {
		return 0, 0
	}
	start, end, _ := bytes.Cut(fields[0], []byte("-"))
	first, err := strconv.ParseUint(string(start), 16, 64)
	if err != nil {
		return 0, 0
	}
	behind, err := strconv.ParseUint(string(end), 16, 64)
	if err != nil || behind < first {
		return 0, 0
	}
	return uintptr(first), uintptr(behind - first)
}
