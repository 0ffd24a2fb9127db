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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Store keeps versions as files in the data directory: one file for each, and
// one that says which is current. Every write is complete or absent after a
// crash. The files hold backend keys, so only their owner may read them.
type Store struct {
	dir  string
	lock *os.File
}

// pointer is the content of the file that names the current version.
type pointer struct {
	Version int `json:"version"`
	// Source identifies the services that the configuration file gave when it
	// was read last: a restart takes the file again only if they changed.
	Source string `json:"source"`
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
	dir := filepath.Join(dataDir, versionsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
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
	return &Store{dir: dir, lock: lock}, nil
}

// Close lets other processes in.
func (s *Store) Close() error { return s.lock.Close() }

// List returns the numbers of all versions in order.
func (s *Store) List() ([]int, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, entry := range entries {
		name, isVersion := strings.CutSuffix(entry.Name(), ".json")
		if n, err := strconv.Atoi(name); isVersion && err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.SortFunc(numbers, cmp.Compare[int])
	return numbers, nil
}

// Load reads one version.
func (s *Store) Load(number int) (*Version, error) {
	data, err := os.ReadFile(s.path(number))
	if err != nil {
		return nil, err
	}
	v := new(Version)
	if err := json.Unmarshal(data, v, strict); err != nil {
		return nil, fmt.Errorf("version %d: %w", number, err)
	}
	if v.Number != number {
		return nil, fmt.Errorf("version %d: the file holds version %d", number, v.Number)
	}
	return v, nil
}

// Save writes a new version. It never replaces one that is there.
func (s *Store) Save(v *Version) error {
	if _, err := os.Stat(s.path(v.Number)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("version %d exists already", v.Number)
	}
	return s.write(s.path(v.Number), v)
}

// current reads which version is current; a store without one has the zero pointer.
func (s *Store) current() (pointer, error) {
	var p pointer
	data, err := os.ReadFile(filepath.Join(s.dir, currentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(data, &p)
}

func (s *Store) setCurrent(p pointer) error { return s.write(filepath.Join(s.dir, currentFile), p) }

func (s *Store) path(number int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%08d.json", number))
}

// write puts a value into a file so that a crash at any moment leaves either
// the old content or the new: written aside, synced, renamed, and the rename
// synced too.
func (s *Store) write(path string, value any) (err error) {
	data, err := json.Marshal(value, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	aside, err := os.CreateTemp(s.dir, ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(aside.Name())
		}
	}()
	if _, err = aside.Write(append(data, '\n')); err != nil {
		_ = aside.Close()
		return err
	}
	if err = aside.Sync(); err != nil {
		_ = aside.Close()
		return err
	}
	if err = aside.Close(); err != nil {
		return err
	}
	if err = os.Rename(aside.Name(), path); err != nil {
		return err
	}
	return syncDir(s.dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
