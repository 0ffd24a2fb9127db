// Package files keeps the versions of the configuration in the data directory.
package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Store keeps versions as files in the data directory: one file for each, and one that
// says which is current. Every write is complete or absent after a crash. The files hold
// backend keys, so only their owner may read them. Signatures are in files of
// their own.
type Store struct {
	data *durable.Dir // the data directory
	dir  *durable.Dir // the versions in it
	lock *os.File
}

const (
	versionsDir = "versions"
	currentFile = "current" + recordSuffix
	lockFile    = "lock"
	// markFile has the mark of the data directory.
	markFile = "format.json"
	// restoringFile is there while a restore exchanges the content of the data directory.
	restoringFile = "restoring"
	// The names of records and signatures differ in their suffix.
	recordSuffix, signatureSuffix = ".json", ".sig"
	// backupPrefix begins the names of the directories with backups.
	backupPrefix = "backup-"
)

// ErrInUse means that another process works in the same data directory.
var ErrInUse = errors.New("the data directory is in use by another process")

// ErrRestoring means that a restore was interrupted while it exchanged the content of the
// data directory.
var ErrRestoring = errors.New("a restore of the data directory was interrupted; run it again: patchbay restore FILE " +
	"--force")

// Open opens the store in the data directory, which it makes if need be, and locks
// it against other processes. The data must be signed with keys, which may be nil: otherwise the
// error is mark.ErrMasterKey or mark.ErrFormat, and nothing is changed.
func Open(dataDir string, keys *seal.Keys) (*Store, error) {
	s, err := OpenToRestore(dataDir, keys, nil)
	return s.unlessRestoring(err)
}

// OpenToRestore is Open for a restore, which may follow one that was interrupted. If begun is not nil, the
// place may be one where keys were replacing another one; begun is then its mark.
func OpenToRestore(dataDir string, keys *seal.Keys, begun *mark.Mark) (*Store, error) {
	s, err := lock(dataDir, func() error {
		err := Check(dataDir, keys)
		if m, _ := Peek(dataDir).Mark(); err != nil && begun != nil && m.Next == keys.ID() && m.IsBegunWith(keys) {
			*begun, err = m, nil
		}
		return err
	})
	if err == nil && content(dataDir) == "" {
		err = s.SetMark(mark.Of(keys))
	}
	if err != nil && s != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, err
}

// OpenToRekey is Open for data that is signed with any keys, and has a mark that a function allows.
func OpenToRekey(dataDir string, check func(mark.Mark) error) (*Store, error) {
	s, err := lock(dataDir, func() error {
		m, err := Peek(dataDir).Mark()
		if err == nil {
			err = check(m)
		}
		return err
	})
	return s.unlessRestoring(err)
}

func (s *Store) unlessRestoring(err error) (*Store, error) {
	if err == nil && exists(s.data, restoringFile) {
		return nil, errors.Join(fmt.Errorf("%w (%s)", ErrRestoring, s.data.Path("")), s.Close())
	}
	return s, err
}

// lock opens and locks the data directory. Unless the check succeeds, it changes nothing.
func lock(dataDir string, check func() error) (*Store, error) {
	path := filepath.Join(dataDir, lockFile)
	lock, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err := check(); err != nil {
			return nil, err
		}
		if err = os.MkdirAll(dataDir, 0o700); err == nil {
			lock, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := lockExclusively(lock); err != nil {
		holder, _ := io.ReadAll(lock)
		_ = lock.Close()
		return nil, fmt.Errorf("%w: %s%s", ErrInUse, dataDir, holder)
	}
	if err := check(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	_ = lock.Truncate(0)
	s := &Store{lock: lock}
	if s.data, err = durable.Open(dataDir); err == nil {
		s.dir, err = durable.Open(filepath.Join(dataDir, versionsDir))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data directory: %w", err), lock.Close())
	}
	return s, nil
}

// Check returns an error unless a data directory is empty, or its data is signed with keys.
func Check(dataDir string, keys *seal.Keys) error {
	found := content(dataDir)
	m, err := Peek(dataDir).Mark()
	switch {
	case found == "" && m.Next == "":
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return mark.Missing(dataDir, found)
	case err != nil:
		return err
	}
	return m.Check(dataDir, keys)
}

// content returns the name of a file or folder of a data directory whose content depends on its mark, empty if
// there is none.
func content(dataDir string) string {
	for _, name := range []string{versionsDir, "keys.json", "keys.sealed.json", "sessions", "batches", "calls"} {
		path := filepath.Join(dataDir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if entries, _ := os.ReadDir(path); !info.IsDir() || len(entries) > 0 {
			return name
		}
	}
	return ""
}

// Mark returns the mark of the data directory; the error is fs.ErrNotExist if there is none.
func (s *Store) Mark() (mark.Mark, error) {
	text, err := s.data.Read(markFile)
	if err != nil {
		return mark.Mark{}, err
	}
	return mark.Read(text)
}

// SetMark writes the mark of the data directory.
func (s *Store) SetMark(m mark.Mark) error { return s.data.Write(markFile, m.Text()) }

// Exchange exchanges content of the data directory. If the process is killed meanwhile, Open
// refuses the directory.
func (s *Store) Exchange(exchange func() error) error {
	if err := s.data.Write(restoringFile, nil); err != nil {
		return err
	}
	if err := exchange(); err != nil {
		return errors.Join(err, s.data.Remove(restoringFile))
	}
	return s.data.Remove(restoringFile)
}

// Peek returns the store in a data directory to be read only, by a program that has no
// lock on it. It makes and removes nothing.
func Peek(dataDir string) *Store {
	return &Store{data: durable.At(dataDir), dir: durable.At(filepath.Join(dataDir, versionsDir))}
}

// Introduce adds a text about this process to the error of others that open the store meanwhile.
func (s *Store) Introduce(text string) error {
	_, err := s.lock.WriteAt([]byte(text), 0)
	return err
}

// Data returns the data directory, where other packages keep files, too.
func (s *Store) Data() *durable.Dir { return s.data }

// Close releases the lock on the data directory.
func (s *Store) Close() error {
	unlock(s.lock)
	return s.lock.Close()
}

// Versions returns the numbers of all versions in order.
func (s *Store) Versions() ([]int, error) {
	names, err := s.dir.Names()
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, file := range names {
		name, isVersion := strings.CutSuffix(file, recordSuffix)
		if n, err := strconv.Atoi(name); isVersion && err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.SortFunc(numbers, cmp.Compare[int])
	return numbers, nil
}

// Load reads one version.
func (s *Store) Load(number int) (*versions.Version, error) {
	data, err := s.dir.Read(fileOf(number))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, versions.NoVersion(number)
	}
	if err != nil {
		return nil, err
	}
	return versions.ReadVersion(number, data)
}

// Save writes a version.
func (s *Store) Save(v *versions.Version) error { return write(s.dir, fileOf(v.Number), v) }

// Remove removes versions for good, with their signatures. After an error
// some of these may be left.
func (s *Store) Remove(numbers ...int) error {
	names := filesOf(numbers)
	for _, number := range numbers {
		if name := signatureOf(fileOf(number)); exists(s.dir, name) {
			names = append(names, name)
		}
	}
	return s.dir.Remove(names...)
}

// Head reads which version is current; a store without one has the zero Head.
func (s *Store) Head() (versions.Head, error) {
	var head versions.Head
	data, err := s.dir.Read(currentFile)
	if errors.Is(err, fs.ErrNotExist) {
		return head, nil
	}
	if err != nil {
		return head, err
	}
	return head, json.Unmarshal(data, &head)
}

// SetHead writes which version is current.
func (s *Store) SetHead(head versions.Head) error { return write(s.dir, currentFile, head) }

// Backup copies every version and its signature into a directory of its own, which appears
// whole or not at all. It returns its path and the names of the files; a dry run only
// returns the names.
func (s *Store) Backup(now time.Time, dryRun bool) (path string, files []string, err error) {
	numbers, err := s.Versions()
	if err != nil || dryRun {
		return "", filesOf(numbers), err
	}
	name := backupPrefix + now.UTC().Format("20060102T150405.000000000Z")
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
	for _, name := range filesOf(numbers) {
		for _, name := range []string{name, signatureOf(name)} {
			content, err := s.dir.Read(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue // deleted meanwhile, or not signed
			}
			if err != nil {
				return "", nil, err
			}
			if err := to.Write(name, content); err != nil {
				return "", nil, err
			}
			files = append(files, name)
		}
	}
	if err := s.data.Move(unfinished, name); err != nil {
		return "", nil, err
	}
	return s.data.Path(name), files, nil
}

// Signature returns the signature of a record, empty where there is none.
func (s *Store) Signature(of versions.Record) (string, error) {
	return readSignature(s.dir, recordFile(of))
}

// SetSignature stores the signature of a record, or removes it where it is empty.
func (s *Store) SetSignature(of versions.Record, signature string) error {
	return writeSignature(s.dir, recordFile(of), signature)
}

// Rewrite changes versions in place, including the versions in backups. Files that are no
// versions are left alone.
func (s *Store) Rewrite(change func(*versions.Version, string) (*versions.Version, string, error)) error {
	entries, err := os.ReadDir(s.data.Path(""))
	if err != nil {
		return err
	}
	dirs := []*durable.Dir{s.dir}
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), backupPrefix) {
			continue
		}
		dir, err := durable.Open(s.data.Path(entry.Name()))
		if err != nil {
			return err
		}
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		if err := rewriteIn(dir, change); err != nil {
			return err
		}
	}
	return nil
}

func rewriteIn(dir *durable.Dir, change func(*versions.Version, string) (*versions.Version, string, error)) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		number, err := strconv.Atoi(strings.TrimSuffix(name, recordSuffix))
		if err != nil || name != fileOf(number) {
			continue
		}
		data, err := dir.Read(name)
		if err != nil {
			return err
		}
		v, err := versions.ReadVersion(number, data)
		if err != nil {
			continue // the start reports it when it needs the version
		}
		signature, err := readSignature(dir, name)
		if err != nil {
			return err
		}
		next, nextSignature, err := change(v, signature)
		if err == nil && nextSignature != signature {
			err = writeSignature(dir, name, nextSignature)
		}
		if err == nil && next != nil {
			err = write(dir, name, next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func recordFile(of versions.Record) string {
	if of == versions.RecordHead {
		return currentFile
	}
	return fileOf(int(of))
}

// signatureOf names the file for the signature of a record.
func signatureOf(file string) string { return strings.TrimSuffix(file, recordSuffix) + signatureSuffix }

// readSignature returns the signature of a record, empty if it has none.
func readSignature(dir *durable.Dir, file string) (string, error) {
	data, err := dir.Read(signatureOf(file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

// writeSignature stores the signature of a record, or removes an empty one.
func writeSignature(dir *durable.Dir, file, text string) error {
	name := signatureOf(file)
	switch {
	case text != "":
		return dir.Write(name, []byte(text+"\n"))
	case exists(dir, name):
		return dir.Remove(name)
	}
	return nil
}

func exists(dir *durable.Dir, name string) bool {
	_, err := os.Lstat(dir.Path(name))
	return err == nil
}

func fileOf(number int) string { return fmt.Sprintf("%08d%s", number, recordSuffix) }

func filesOf(numbers []int) []string {
	names := make([]string, len(numbers))
	for i, number := range numbers {
		names[i] = fileOf(number)
	}
	return names
}

func write(to *durable.Dir, name string, value any) error {
	data, err := json.Marshal(value, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	return to.Write(name, append(data, '\n'))
}
