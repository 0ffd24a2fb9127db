package quota

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// mappedSize is how much of a segment is mapped at a time.
const mappedSize = 256 << 10

// mappedSegment is a segment that is written through memory that it shares with the
// kernel. What is copied there is the kernel's, as after a write, without a system
// call for each append. The space is allocated before it is mapped, so that a full
// disk is an error here and not a signal. After a crash of the process the segment
// ends with zeros.
type mappedSegment struct {
	*os.File
	mapped []byte // nil before the first write
	begin  int64  // where in the file it begins
	used   int
	plain  bool // the file system cannot do this, and writes it is
}

// newSegment returns a segment for an empty file.
func newSegment(file *os.File) segment { return &mappedSegment{File: file} }

func (s *mappedSegment) Write(p []byte) (n int, err error) {
	for n < len(p) && !s.plain {
		if s.used == len(s.mapped) {
			if err := s.advance(); err != nil {
				return n, err
			}
			continue
		}
		copied := copy(s.mapped[s.used:], p[n:])
		s.used += copied
		n += copied
	}
	if s.plain {
		n, err = s.File.Write(p)
		s.begin += int64(n)
	}
	return n, err
}

// advance maps the next part of the file.
func (s *mappedSegment) advance() error {
	begin := s.begin + int64(len(s.mapped))
	if err := s.unmap(); err != nil {
		return err
	}
	fd := int(s.Fd())
	for {
		err := unix.Fallocate(fd, 0, begin, mappedSize)
		if err == nil {
			break
		}
		switch {
		case errors.Is(err, unix.EINTR):
		case begin == 0 && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)):
			s.plain = true
			return nil
		default:
			return os.NewSyscallError("fallocate", err)
		}
	}
	// Populated at once, or every 4 KiB would begin with a fault.
	mapped, err := unix.Mmap(fd, begin, mappedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	s.mapped, s.begin, s.used = mapped, begin, 0
	return nil
}

func (s *mappedSegment) unmap() error {
	if s.mapped == nil {
		return nil
	}
	mapped := s.mapped
	s.begin += int64(s.used)
	s.mapped, s.used = nil, 0
	return os.NewSyscallError("munmap", unix.Munmap(mapped))
}

// Close gives up the space that was not used.
func (s *mappedSegment) Close() error {
	err := s.unmap()
	return errors.Join(err, s.Truncate(s.begin), s.File.Close())
}
