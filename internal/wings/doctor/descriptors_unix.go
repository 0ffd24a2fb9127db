//go:build unix

package doctor

import "golang.org/x/sys/unix"

// descriptorLimit returns how many descriptors the program may have. Go raises the soft
// limit to the hard one by itself.
func descriptorLimit() (limit uint64, known bool) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, false
	}
	return uint64(r.Max), true //nolint:unconvert // some systems have signed limits
}
