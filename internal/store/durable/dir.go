// Package durable writes files that a crash leaves whole: with their old
// content or with the new, never with half of it.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Dir is a directory with files that only their owner may read. One process at a time
// works in it.
type Dir struct {
	path string
	// Before is called before each step of a write, which fails if it returns an
	// error; nil means no call. Tests use it to inspect the disk and to inject faults.
	Before func(Step) error
}

// Step is one step of a write, in this order.
type Step string

// The steps of a write, and the one of a removal.
const (
	Create  Step = "create"
	Fill    Step = "fill"
	Sync    Step = "sync"
	Rename  Step = "rename"
	SyncDir Step = "sync directory"
	Remove  Step = "remove"
)

// IsFull reports whether a write failed because the disk has no space left, or none that
// this user may take.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// unfinishedPrefix begins the name of an unfinished file.
const unfinishedPrefix = ".new-"

// Unfinished returns a temporary name for a file or folder that gets its own name when it
// is whole. Open removes unfinished ones.
func Unfinished(name string) string { return unfinishedPrefix + name }

// Open opens or makes a directory, and removes unfinished writes after a crash: they are
// never read, and may hold secrets.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), unfinishedPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(path, entry.Name())))
		}
	}
	return &Dir{path: path}, err
}

// At returns a directory as it is, to be read only.
func At(path string) *Dir { return &Dir{path: path} }

// Make makes the directory where there is none, for good.
func (d *Dir) Make() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	return (&Dir{path: filepath.Dir(d.path)}).sync()
}

// Path returns where a file of the directory is.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Read returns the content of a file.
func (d *Dir) Read(name string) ([]byte, error) { return os.ReadFile(d.Path(name)) }

// Size returns how many bytes a file has.
func (d *Dir) Size(name string) (int64, error) {
	info, err := os.Stat(d.Path(name))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Names lists the files of the directory.
func (d *Dir) Names() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() && !strings.HasPrefix(entry.Name(), unfinishedPrefix) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Write gives a file new content: written to another file, synced, renamed, and the
// rename synced too. After an error the file has its old content, unless the
// last step failed: then it is unknown which content a crash would leave.
func (d *Dir) Write(name string, content []byte) error {
	return d.write(name, writing(content), ownerOnly)
}

// Fill is Write for content that a function writes.
func (d *Dir) Fill(name string, fill func(io.Writer) error) error {
	return d.write(name, fill, ownerOnly)
}

func writing(content []byte) func(io.Writer) error {
	return func(to io.Writer) error {
		_, err := to.Write(content)
		return err
	}
}

const ownerOnly fs.FileMode = 0o600

// WriteFile gives a file anywhere new content, as Dir.Write does, and these permissions.
// If the path is a link, it writes the link's target. It writes to a special file, such
// as /dev/stdout, directly.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, content, mode)
	}
	return At(filepath.Dir(path)).write(filepath.Base(path), writing(content), mode)
}

func (d *Dir) write(name string, fill func(io.Writer) error, mode fs.FileMode) (err error) {
	if err := d.before(Create); err != nil {
		return err
	}
	file, err := os.CreateTemp(d.path, unfinishedPrefix+"*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	if mode != ownerOnly {
		err = file.Chmod(mode)
	}
	out := &openFile{file, d}
	if err == nil {
		err = fill(out)
	}
	if err == nil {
		err = out.Sync()
	}
	if err != nil {
		_ = file.Close()
		return err
	}
	if err = file.Close(); err != nil {
		return err
	}
	if err = d.before(Rename); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), d.Path(name)); err != nil {
		return err
	}
	return d.sync()
}

// File is a file that only ever grows. Written bytes have reached the kernel: a crash of
// the process does not lose them.
type File interface {
	io.WriteCloser
	// Sync returns when the disk has the content.
	Sync() error
}

// Append makes a file that must not exist yet. Its writes go to its end, wherever that is:
// after something else has cut the file off, writes at the old offset would leave zeros before
// them and restore the size.
func (d *Dir) Append(name string) (File, error) {
	if err := d.before(Create); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(d.Path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, ownerOnly)
	if err != nil {
		return nil, err
	}
	if err := d.sync(); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return &openFile{file, d}, nil
}

// openFile is a file with steps that a test may let fail.
type openFile struct {
	*os.File
	dir *Dir
}

func (f *openFile) Write(data []byte) (int, error) {
	if err := f.dir.before(Fill); err != nil {
		return 0, err
	}
	return f.File.Write(data)
}

func (f *openFile) Sync() error {
	if err := f.dir.before(Sync); err != nil {
		return err
	}
	return f.File.Sync()
}

// Remove removes files for good. After an error some of them may be left.
func (d *Dir) Remove(names ...string) error {
	for _, name := range names {
		if err := d.before(Remove); err != nil {
			return err
		}
		if err := os.Remove(d.Path(name)); err != nil {
			return err
		}
	}
	return d.sync()
}

// Move gives a file or directory below this one another name.
func (d *Dir) Move(from, to string) error {
	if err := os.Rename(d.Path(from), d.Path(to)); err != nil {
		return err
	}
	return d.sync()
}

func (d *Dir) sync() error {
	if err := d.before(SyncDir); err != nil {
		return err
	}
	dir, err := os.Open(d.path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	return errors.Join(err, dir.Close())
}

// WithoutPath returns an error without its path, for readers who may not see where files are.
func WithoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = fmt.Errorf("%s: %w", path.Op, path.Err)
	}
	return err
}

func (d *Dir) before(step Step) error {
	if d.Before == nil {
		return nil
	}
	if err := d.Before(step); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}
