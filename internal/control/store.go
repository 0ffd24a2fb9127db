package control

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/durable"
)

// Store keeps versions as files in the data directory: one file for each, and
// one that says which is current. Every write is complete or absent after a
// crash. The files hold backend keys, so only their owner may read them.
type Store struct {
	data *durable.Dir // the data directory
	dir  *durable.Dir // the versions in it
	lock *os.File
}

// pointer is the content of the file that names the current version.
type pointer struct {
	Version int `json:"version"`
	// Newest is the highest number that was ever used: the version that had it
	// may be gone, and its number is not given again.
	Newest int `json:"newest"`
	// Source identifies the services that the configuration file gave when it
	// was read last: a restart takes the file again only if they changed.
	Source string `json:"source"`
	// File are these services themselves, without defaults. Older releases did
	// not keep them.
	File jsontext.Value `json:"file,omitzero"`
	// Log and Revision say which state of a shared configuration the versions
	// are, if it is shared.
	Log      string `json:"log,omitzero"`
	Revision int64  `json:"revision,omitzero"`
}

const (
	versionsDir = "versions"
	currentFile = "current.json"
	lockFile    = "lock"
)

// ErrInUse means that another process works in the same data directory.
var ErrInUse = errors.New("the data directory is in use by another process")

// OpenStore opens or makes the store in the data directory and keeps other
// processes out of it.
func OpenStore(dataDir string) (*Store, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dataDir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := lockExclusively(lock); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("%w: %s", ErrInUse, dataDir)
	}
	s := &Store{lock: lock}
	if s.data, err = durable.Open(dataDir); err == nil {
		s.dir, err = durable.Open(filepath.Join(dataDir, versionsDir))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data directory: %w", err), lock.Close())
	}
	return s, nil
}

// Data returns the data directory, for others who keep files in it.
func (s *Store) Data() *durable.Dir { return s.data }

// Close lets other processes in.
func (s *Store) Close() error { return s.lock.Close() }

// List returns the numbers of all versions in order.
func (s *Store) List() ([]int, error) {
	names, err := s.dir.Names()
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, file := range names {
		name, isVersion := strings.CutSuffix(file, ".json")
		if n, err := strconv.Atoi(name); isVersion && err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.SortFunc(numbers, cmp.Compare[int])
	return numbers, nil
}

// Load reads one version.
func (s *Store) Load(number int) (*Version, error) {
	data, err := s.dir.Read(fileOf(number))
	if err != nil {
		return nil, err
	}
	v := new(Version)
	if err := json.Unmarshal(data, v, strict()); err != nil {
		return nil, fmt.Errorf("version %d: %w", number, err)
	}
	if v.Number != number {
		return nil, fmt.Errorf("version %d: the file holds version %d", number, v.Number)
	}
	return v, nil
}

// Save writes a new version. It never replaces one that is there.
func (s *Store) Save(v *Version) error {
	if s.has(v.Number) {
		return fmt.Errorf("version %d exists already", v.Number)
	}
	return write(s.dir, fileOf(v.Number), v)
}

func (s *Store) has(number int) bool {
	_, err := os.Stat(s.dir.Path(fileOf(number)))
	return !errors.Is(err, fs.ErrNotExist)
}

func (s *Store) remove(number int) error { return s.dir.Remove(fileOf(number)) }

func (s *Store) removeAll(numbers []int) error {
	names := make([]string, len(numbers))
	for i, number := range numbers {
		names[i] = fileOf(number)
	}
	return s.dir.Remove(names...)
}

// current reads which version is current; a store without one has the zero pointer.
func (s *Store) current() (pointer, error) {
	var p pointer
	data, err := s.dir.Read(currentFile)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(data, &p)
}

func (s *Store) setCurrent(p pointer) error { return write(s.dir, currentFile, p) }

// backup copies every version into a directory of its own, which appears whole
// or not at all. It returns its path and the names of the files.
func (s *Store) backup(now time.Time) (path string, files []string, err error) {
	numbers, err := s.List()
	if err != nil {
		return "", nil, err
	}
	name := "backup-" + now.UTC().Format("20060102T150405.000000000Z")
	unfinished := durable.Unfinished(name)
	to, err := durable.Open(s.data.Path(unfinished))
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(s.data.Path(unfinished))
		}
	}()
	for _, number := range numbers {
		content, err := s.dir.Read(fileOf(number))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return "", nil, err
		}
		if err := to.Write(fileOf(number), content); err != nil {
			return "", nil, err
		}
		files = append(files, fileOf(number))
	}
	if err := s.data.Move(unfinished, name); err != nil {
		return "", nil, err
	}
	return s.data.Path(name), files, nil
}

func fileOf(number int) string { return fmt.Sprintf("%08d.json", number) }

func write(to *durable.Dir, name string, value any) error {
	data, err := json.Marshal(value, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return to.Write(name, append(data, '\n'))
}
