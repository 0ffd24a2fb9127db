//go:build unix

package files

import (
	"os"
	"syscall"
)

// lockExclusively takes the file for this process until it is closed or the
// process ends, however it ends.
func lockExclusively(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// unlock releases the file at once. Closing it does not, while a child that this process
// is starting still has a copy of its descriptor.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
