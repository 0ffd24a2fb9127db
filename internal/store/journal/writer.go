package journal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// ErrClosed means that a file was closed and takes no more records.
var ErrClosed = errors.New("the journal is closed")

// Writer adds records to a file. One goroutine at a time calls Write and Close; any may call the
// others.
type Writer struct {
	file    durable.File
	size    atomic.Int64
	failure atomic.Pointer[error]

	syncing sync.Mutex
	synced  int64
}

// NewWriter returns a writer that has begun a new file with its head. If that fails, it has closed
// the file.
func NewWriter(file durable.File, head []byte) (*Writer, error) {
	w := &Writer{file: file}
	return w, w.Write(head)
}

// Failed returns a writer without a file, which takes no records because of an error.
func Failed(err error) *Writer {
	w := new(Writer)
	w.failure.Store(&err)
	return w
}

// Write adds whole records. After an error the file takes no more: records behind a part of one
// could not be read.
func (w *Writer) Write(records []byte) error {
	if err := w.Err(); err != nil {
		return err
	}
	n, err := w.file.Write(records)
	w.size.Add(int64(n))
	if err != nil {
		w.Fail(err)
	}
	return err
}

// Size returns how many bytes were written to the file.
func (w *Writer) Size() int64 { return w.size.Load() }

// Err returns why the file takes no more records, or nil.
func (w *Writer) Err() error {
	if failure := w.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// Sync returns when the first bytes of the file, up to a size, are on the disk.
// Concurrent calls share one sync. After a failed sync the file takes no more records,
// because the next sync would succeed although the kernel has dropped the data.
func (w *Writer) Sync(size int64) error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	if w.synced >= size {
		return nil
	}
	if err := w.Err(); err != nil {
		return err
	}
	reached := w.Size()
	if err := w.file.Sync(); err != nil {
		w.Fail(err)
		return w.Err() // Close may have been first
	}
	w.synced = reached
	return nil
}

// Synced returns how many bytes of the file are known to be on the disk.
func (w *Writer) Synced() int64 {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	return w.synced
}

// Fail closes the file because of an error: it takes no more records.
func (w *Writer) Fail(err error) {
	if w.failure.Swap(&err) == nil {
		_ = w.file.Close() // it is broken
	}
}

// Close closes the file. It has no effect on one that has failed.
func (w *Writer) Close() error {
	closed := ErrClosed
	if !w.failure.CompareAndSwap(nil, &closed) {
		return nil
	}
	return w.file.Close()
}

// Series names the files of a folder that follow each other by number.
type Series struct {
	Prefix string
	Digits int
}

const suffix = ".log"

// Name returns the name of the file with a number.
func (s Series) Name(number uint64) string {
	return fmt.Sprintf("%s%0*d%s", s.Prefix, s.Digits, number, suffix)
}

// Number returns the number of the file with a name, and whether it is one of the series.
func (s Series) Number(name string) (number uint64, ok bool) {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, s.Prefix), suffix)
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil && name == s.Name(number)
}
