package backup

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// The names in an archive. The folder of versions is as the data directory has it, answers and
// contents are as the folder of files has them. Lists are lines of JSON.
const (
	headName      = "versions/current.json"
	valuesName    = "values.json"
	ledgerName    = "ledger.jsonl"
	documentsName = "documents.jsonl"
	versionsDir   = "versions"
	contentsDir   = "contents"
	answersDir    = "answers"
)

// allowedNames are the names that an archive may have: none of them leads out of a folder.
var allowedNames = regexp.MustCompile(`^((manifest|values)\.json|(ledger|documents)\.jsonl|` +
	`versions/([0-9]{8,9}|current)\.(json|sig)|contents/[A-Za-z0-9_-]{1,200}|` +
	`answers/[A-Za-z0-9_-]{1,200}/answers-[A-Za-z0-9_-]{1,200})$`)

const (
	// format is the number of this form of archives.
	format = 1
	// largestInMemory bounds a file of an archive that is read into memory, and most the number of
	// files.
	largestInMemory = 128 << 20
	mostFiles       = 1_000_000
)

// writeFile lets a function write the file at a path, whole or not at all, for its owner only.
func writeFile(path string, fill func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	out, err := os.CreateTemp(dir, durable.Unfinished("backup-*")) // with mode 0600
	if err != nil {
		return fmt.Errorf("the folder of %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	err = fill(out)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return durable.At(dir).Move(filepath.Base(out.Name()), filepath.Base(path))
}

// addFile adds as much of a file as it has now to an archive. It reports false if there is none.
func addFile(w *seal.Archive, name, path string) (size int64, isThere bool, err error) {
	in, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = in.Close() }() // it was only read
	info, err := in.Stat()
	if err != nil {
		return 0, false, err
	}
	method := zip.Deflate
	if w.MasterKey != "" {
		method = zip.Store // encrypted bytes do not get smaller
	}
	err = w.Add(name, method, func(to io.Writer) error {
		_, err := io.CopyN(to, in, info.Size())
		return err
	})
	return info.Size(), true, err
}

// archive is an archive that is read.
type archive struct {
	zip   *zip.ReadCloser
	files map[string]*zip.File
	seal.Manifest
	// isSigned is true if the manifest is signed with the master key of the place.
	isSigned bool
}

// errForeign is of a file that is no backup.
var errForeign = errors.New("it is no backup: patchbay backup makes one, or GET /api/config/backup?secrets=true")

// openArchive opens an archive whose manifest fits its files. If there are master keys, the manifest
// must be signed with one of them, whatever the archive says of itself, unless it may be unsigned.
func openArchive(path string, keys *seal.Keys, mayBeUnsigned bool) (_ *archive, err error) {
	in, err := zip.OpenReader(path)
	if errors.Is(err, zip.ErrFormat) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%s: it is no zip archive, or not all of one", path)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, errors.Join(err, in.Close()))
		}
	}()
	a := &archive{zip: in, files: map[string]*zip.File{}}
	if len(in.File) > mostFiles {
		return nil, fmt.Errorf("it has more than %d files", mostFiles)
	}
	for _, file := range in.File {
		if !allowedNames.MatchString(file.Name) || a.files[file.Name] != nil || !file.Mode().IsRegular() {
			return nil, fmt.Errorf("%w (it has %q)", errForeign, shorten(file.Name))
		}
		a.files[file.Name] = file
	}
	if a.files[seal.ManifestName] != nil {
		if err := a.decode(seal.ManifestName, &a.Manifest); err != nil {
			return nil, err
		}
		if a.Format < 1 || a.Format > format {
			return nil, fmt.Errorf("the format %d of the backup is not known: a newer release made it; restore it "+
				"with that release, or a later one", a.Format)
		}
	}
	if err := a.checkSignature(keys); err != nil && (keys == nil || !mayBeUnsigned) {
		return nil, err
	}
	if a.files[headName] == nil && a.From == seal.FromDownload {
		return nil, errors.New("its keys of backends are masked; download it as ADMIN with ?secrets=true")
	}
	return a, a.checkFiles()
}

// shorten bounds a name of an archive in a message.
func shorten(name string) string {
	const longest = 100
	if len(name) > longest {
		return name[:longest] + "..."
	}
	return name
}

// checkSignature compares the manifest with the master keys of the place.
func (a *archive) checkSignature(keys *seal.Keys) error {
	const help = "set security.master-key, or security.previous-master-key, to it (PATCHBAY_SECURITY_MASTER_KEY)"
	if keys == nil {
		if a.MasterKey == "" {
			return nil
		}
		return fmt.Errorf("the backup was made with the master key %s, and there is none: %s", a.MasterKey, help)
	}
	err := a.Verify(keys)
	a.isSigned = err == nil
	switch {
	case a.isSigned:
		return nil
	case a.Signature == "":
		return errors.New("it is not signed with the master key, so whoever could write the file may have put keys, " +
			"tokens and addresses of backends into it; --unsigned restores it with all keys and tokens disabled")
	case errors.Is(err, seal.ErrKey):
		return fmt.Errorf("the backup was made with the master key %s, not with %s: %s", a.MasterKey, keys.ID(), help)
	}
	return errors.New("the backup was changed after it was made: its signature is wrong")
}

// checkFiles compares the manifest, if there is one, with the files of the archive.
func (a *archive) checkFiles() error {
	if a.files[seal.ManifestName] == nil {
		return nil
	}
	for name := range a.files {
		if _, isListed := a.Files[name]; !isListed && name != seal.ManifestName {
			return fmt.Errorf("the backup was changed after it was made: %q was added", shorten(name))
		}
	}
	for name := range a.Files {
		if a.files[name] == nil {
			return fmt.Errorf("the backup was changed after it was made: %q is missing", shorten(name))
		}
	}
	return nil
}

// has reports whether the archive has a part.
func (a *archive) has(part store.Part) bool { return slices.Contains(a.With, string(part)) }

// bytes returns how many bytes the archive has when it is unpacked.
func (a *archive) bytes() (sum int64) {
	for _, file := range a.Files {
		sum += file.Size
	}
	return sum
}

// read lets a function read a file of the archive, and checks that it is as it was written.
func (a *archive) read(name string, use func(io.Reader) error) error {
	want, isListed := a.Files[name]
	if !isListed { // the manifest itself, or a download
		want.Size = largestInMemory
	}
	if a.files[name] == nil {
		return fmt.Errorf("%w (it has no %s)", errForeign, name)
	}
	in, err := a.files[name].Open()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = in.Close() }() // it was only read
	s := seal.NewSums()
	from := io.TeeReader(io.LimitReader(in, want.Size+1), s)
	err = use(from)
	if err == nil {
		_, err = io.Copy(io.Discard, from)
	}
	if err == nil && (s.Size > want.Size || isListed && s.Entry() != want) {
		err = errors.New("it is not as it was written: the backup is damaged")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// content returns a file that fits into memory.
func (a *archive) content(name string) ([]byte, error) {
	var content bytes.Buffer
	err := a.read(name, func(from io.Reader) error {
		n, err := io.Copy(&content, io.LimitReader(from, largestInMemory+1))
		if n > largestInMemory {
			return fmt.Errorf("it has more than %d bytes", largestInMemory)
		}
		return err
	})
	return content.Bytes(), err
}

func (a *archive) decode(name string, into any) error {
	content, err := a.content(name)
	if err == nil {
		if err = json.Unmarshal(content, into); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	return err
}

// unpack writes a file of the archive to a path.
func (a *archive) unpack(name, path string) error {
	return a.read(name, func(from io.Reader) (err error) {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err = io.Copy(out, from); err == nil {
			err = out.Sync()
		}
		return errors.Join(err, out.Close())
	})
}
