package backup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/takeover"
)

// restoring is a restore under way.
type restoring struct {
	place   *Place
	archive *archive
	// keys sign the records that are made anew. They are nil for a backup that was made without a
	// master key: the first start with one then signs everything.
	keys  *seal.Keys
	parts []Part
	force bool
	tell  func(format string, args ...any)
	done  Summary
	// stage has the configuration and credentials in the form of a data directory, stagedFiles the
	// files and batches in the form of their folder.
	stage, stagedFiles string
	// source and values are the source of the head and all values, which a data directory does
	// not have.
	source string
	values map[string]access.StoredValue
	// aside is the name of a folder for the content that was there before, and made the data
	// directory if there was none.
	aside, made string
	moved       []move
}

// move is a file or folder that has another name now.
type move struct{ from, to string }

// Restore brings a backup back to a place where no gateway runs. After an error the place is as
// it was before.
func Restore(ctx context.Context, p *Place, path string, o Options) (Summary, error) {
	a, err := openArchive(path, p.Keys)
	if err != nil {
		return Summary{}, err
	}
	defer func() { _ = a.zip.Close() }() // it was only read
	r := &restoring{place: p, archive: a, keys: p.Keys, parts: o.With, force: o.Force, tell: o.Tell}
	if a.MasterKey == "" && !a.isDownload {
		r.keys = nil
	}
	for _, part := range o.With {
		if !a.has(part) {
			return Summary{}, fmt.Errorf("the backup has no %s: it was made without --with %s", part, part)
		}
	}
	if len(o.With) == 0 {
		r.parts = a.With
	}
	if err := p.checkFolder(r.parts); err != nil {
		return Summary{}, err
	}
	r.done.Made, r.done.With = a.Made, r.parts
	r.aside = "replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
	if p.Database != "" {
		err = r.toDatabase(ctx)
	} else {
		err = r.toDirectory(ctx)
	}
	if err != nil {
		err = errors.Join(err, r.undo(), os.RemoveAll(r.made))
	}
	return r.done, errors.Join(err, os.RemoveAll(r.stage), os.RemoveAll(r.stagedFiles))
}

func (r *restoring) has(part Part) bool { return slices.Contains(r.parts, part) }

// notEmpty is the error of a place that has content.
func (r *restoring) notEmpty(what string) error {
	return fmt.Errorf("%s is not empty: it has %s; --force replaces what is there", r.place, what)
}

// toDirectory restores to the data directory.
func (r *restoring) toDirectory(ctx context.Context) error {
	dir := r.place.DataDir
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		r.made = dir
	}
	store, err := files.OpenToRestore(dir)
	if errors.Is(err, files.ErrInUse) {
		return fmt.Errorf("a gateway runs there; stop it first: %w", err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // nothing is written through it
	if err := r.checkDirectory(store); err != nil {
		return err
	}
	r.stage = store.Data().Path(durable.Unfinished("restore"))
	if err := r.stageConfiguration(); err != nil {
		return err
	}
	if err := r.stageFiles(); err != nil {
		return err
	}
	exchange := func(*sql.Tx) error {
		return store.Exchange(func() error {
			err := r.exchange(dir, r.stage, append([]string{versionsDir}, ownFiles()...))
			if err == nil && r.has(Ledger) {
				err = r.exchange(dir, r.stage, journals()) // the database has all of it
			}
			if err == nil && r.has(Files) {
				err = r.exchange(r.place.Folder, r.stagedFiles, []string{documentsDir, contentsDir, answersDir})
			}
			if err == nil {
				err = r.noteRestore(dir)
			}
			if err != nil {
				err = errors.Join(err, r.undo())
			}
			return err
		})
	}
	if r.has(Ledger) {
		return r.restoreLedger(ctx, exchange)
	}
	return exchange(nil)
}

// noteRestore leaves a note for the audit, whose records stay: the gateway begins a new chain.
func (r *restoring) noteRestore(dir string) error {
	text, err := json.Marshal(r.note(), json.Deterministic(true))
	if err != nil {
		return err
	}
	folder := durable.At(filepath.Join(dir, "audit"))
	if err := folder.Make(); err != nil {
		return err
	}
	return folder.Write("restored.json", text)
}

// restored tells when a backup was restored, and when it was made, as the audit reads it.
type restored struct {
	Time string `json:"time"`
	Made string `json:"made"`
}

func (r *restoring) note() restored {
	made := "an unknown time"
	if !r.done.Made.IsZero() {
		made = r.done.Made.UTC().Format(time.RFC3339)
	}
	return restored{time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), made}
}

// ownFiles are the files of the data directory that a restore replaces.
func ownFiles() []string { return []string{"keys.json", "keys.sealed.json", "taken-over.json"} }

// checkDirectory returns an error if a restore would replace something, unless it may.
func (r *restoring) checkDirectory(store *files.Store) error {
	if r.force {
		return nil
	}
	if numbers, err := store.Versions(); err != nil || len(numbers) > 0 {
		return errors.Join(err, r.notEmpty(fmt.Sprintf("%d versions", len(numbers))))
	}
	for _, name := range ownFiles() {
		if _, err := os.Lstat(store.Data().Path(name)); err == nil {
			return r.notEmpty(name)
		}
	}
	return r.checkFolder()
}

// checkFolder is checkDirectory for the folder of files and batches.
func (r *restoring) checkFolder() error {
	if r.force || !r.has(Files) {
		return nil
	}
	for _, folder := range []string{documentsDir, contentsDir, answersDir} {
		entries, err := os.ReadDir(filepath.Join(r.place.Folder, folder))
		if err == nil && len(entries) > 0 {
			return r.notEmpty("files or batches in " + r.place.Folder)
		}
	}
	return nil
}

// stageConfiguration writes the configuration and credentials to the stage, and checks them there.
func (r *restoring) stageConfiguration() error {
	r.tell("configuration")
	if err := os.RemoveAll(r.stage); err != nil {
		return err
	}
	if err := os.MkdirAll(r.stage, 0o700); err != nil {
		return err
	}
	if r.archive.isDownload {
		if err := r.archive.stageDownload(r.stage, r.keys); err != nil {
			return err
		}
	} else if err := r.unpackConfiguration(); err != nil {
		return err
	}
	c, err := readStaged(r.stage, r.keys)
	if err != nil {
		return err
	}
	r.done.Versions, r.done.Current = len(c.numbers), c.head.Version
	r.done.countValues(c.values)
	head := c.head
	r.source = head.Source
	head.Source, head.Position = versions.Restored, versions.Position{}
	return versions.NewSealedStore(files.Peek(r.stage), r.keys).SetHead(head)
}

// unpackConfiguration writes the versions and credentials of an archive to the stage.
func (r *restoring) unpackConfiguration() error {
	for name := range r.archive.Files {
		if strings.HasPrefix(name, versionsDir+"/") {
			if err := r.archive.unpack(name, filepath.Join(r.stage, filepath.FromSlash(name))); err != nil {
				return err
			}
		}
	}
	values := map[string]access.StoredValue{}
	if err := r.archive.decode(valuesName, &values); err != nil {
		return err
	}
	dir := durable.At(r.stage)
	marks, err := takeover.Open(takeover.Options{Keys: r.keys, Data: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	for name := range values {
		if thing, isMark := strings.CutPrefix(name, markPrefix); isMark {
			marks.Found(takeover.Thing(thing))
		}
	}
	r.values = values
	return access.WriteStored(dir, values)
}

// stageFiles unpacks files and batches beside the folder that will have them.
func (r *restoring) stageFiles() error {
	if !r.has(Files) {
		return nil
	}
	if err := r.checkFolder(); err != nil {
		return err
	}
	r.stagedFiles = filepath.Join(r.place.Folder, durable.Unfinished("restore"))
	if err := errors.Join(os.RemoveAll(r.stagedFiles), os.MkdirAll(r.stagedFiles, 0o700)); err != nil {
		return err
	}
	need := r.archive.bytes()
	if space, err := durable.SpaceOf(r.place.Folder); err == nil && space.Total > 0 && space.Free < need {
		return fmt.Errorf("the disk with %s has %d bytes free, and the backup needs %d", r.place.Folder, space.Free,
			need)
	}
	r.tell("%d bytes to unpack", need)
	next := time.Now().Add(tellEvery)
	for name, file := range r.archive.Files {
		isAnswer := strings.HasPrefix(name, answersDir+"/")
		if !strings.HasPrefix(name, contentsDir+"/") && (!isAnswer || !r.has(Batches)) {
			continue
		}
		if err := r.archive.unpack(name, filepath.Join(r.stagedFiles, filepath.FromSlash(name))); err != nil {
			return err
		}
		if !isAnswer {
			r.done.Bytes += file.Size
		}
		if now := time.Now(); now.After(next) {
			next = now.Add(tellEvery)
			r.tell("%d bytes of files", r.done.Bytes)
		}
	}
	if r.place.Database != "" {
		return nil
	}
	dir, err := durable.Open(filepath.Join(r.stagedFiles, documentsDir))
	if err != nil {
		return err
	}
	return r.eachDocument(func(doc documents.Document) error { return documents.WriteFile(dir, doc) })
}

// eachDocument calls a function with the documents of the archive, and counts them.
func (r *restoring) eachDocument(visit func(documents.Document) error) error {
	return r.archive.read(documentsName, func(from io.Reader) error {
		in := jsontext.NewDecoder(from)
		for {
			var doc documents.Document
			err := json.UnmarshalDecode(in, &doc)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				err = documents.CheckName(doc.Kind, doc.ID)
			}
			if err == nil && isWanted(doc.Kind, r.parts) {
				r.done.countDocument(doc.Kind)
				err = visit(doc)
			}
			if err != nil {
				return err
			}
		}
	})
}

// exchange moves files and folders to a folder of their own, and those of the stage to their
// places.
func (r *restoring) exchange(dir, stage string, names []string) error {
	aside := filepath.Join(dir, r.aside)
	for _, name := range names {
		place, staged := filepath.Join(dir, name), filepath.Join(stage, name)
		if _, err := os.Lstat(place); err == nil && !isEmptyDir(place) {
			if err := os.MkdirAll(aside, 0o700); err != nil {
				return err
			}
			if !slices.Contains(r.done.Replaced, aside) {
				r.done.Replaced = append(r.done.Replaced, aside)
			}
			if err := r.move(place, filepath.Join(aside, name)); err != nil {
				return err
			}
		} else if err == nil {
			if err := os.Remove(place); err != nil {
				return err
			}
		}
		if _, err := os.Lstat(staged); err == nil {
			if err := r.move(staged, place); err != nil {
				return err
			}
		}
	}
	return nil
}

func isEmptyDir(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 0
}

// move moves a file or folder for good, and remembers it.
func (r *restoring) move(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	r.moved = append(r.moved, move{from, to})
	return durable.At(filepath.Dir(to)).Make() // which syncs the folder
}

// undo moves everything back.
func (r *restoring) undo() error {
	var failed error
	for _, m := range slices.Backward(r.moved) {
		failed = errors.Join(failed, os.Rename(m.to, m.from))
	}
	for _, aside := range r.done.Replaced {
		failed = errors.Join(failed, os.Remove(aside))
	}
	r.moved, r.done.Replaced = nil, nil
	return failed
}
