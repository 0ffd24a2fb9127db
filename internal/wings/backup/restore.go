package backup

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/takeover"
)

// restoring is a restore under way.
type restoring struct {
	place   *Place
	archive *archive
	keys    *seal.Keys // sign the records that are made anew
	parts   []Part
	kept    []documents.Kept
	force   bool
	tell    func(format string, args ...any)
	record  Record
	done    Summary
	// id is that of a restore of an unsigned backup to a place with a master key, else empty.
	id string
	// stage has the configuration and credentials in the form of a data directory, stagedFiles the
	// files and batches in the form of their folder.
	stage, stagedFiles string
	// source is the source of the head, and values are all values of the archive.
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
	a, err := openArchive(path, p.Keys, o.Unsigned)
	if err != nil {
		return Summary{}, err
	}
	defer func() { _ = a.zip.Close() }() // it was only read
	r := &restoring{place: p, archive: a, keys: p.Keys, parts: o.With, force: o.Force, tell: o.Tell,
		record: o.Record}
	for _, part := range o.With {
		if !a.has(part) {
			return Summary{}, fmt.Errorf("the backup has no %s: it was made without --with %s", part, part)
		}
	}
	if len(o.With) == 0 {
		r.parts, err = ParseParts(a.With)
	}
	if err != nil {
		return Summary{}, err
	}
	if err := p.checkFolder(r.parts); err != nil {
		return Summary{}, err
	}
	r.kept = p.kept(r.parts)
	r.done = Summary{Made: a.Made, With: r.parts, IsSigned: a.isSigned, IsDisabled: r.isDoubted()}
	if r.done.SHA256, err = digest(path); err != nil {
		return Summary{}, err
	}
	if r.isDoubted() {
		r.id = rand.Text()
	}
	r.aside = "replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
	if p.Database != "" {
		if err = r.toDatabase(ctx); err == nil {
			r.note()
		}
	} else {
		err = r.toDirectory(ctx)
	}
	if err != nil {
		err = errors.Join(err, r.undo(), os.RemoveAll(r.made))
	}
	return r.done, errors.Join(err, os.RemoveAll(r.stage), os.RemoveAll(r.stagedFiles))
}

// digest returns the SHA-256 of a file.
func digest(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }() // it was only read
	s := seal.NewSums()
	_, err = io.Copy(s, in)
	return s.Entry().SHA256, err
}

// note records the restore, which is done, in the audit.
func (r *restoring) note() {
	end, err := r.record(&r.done)
	if err != nil {
		r.done.Notes = append(r.done.Notes, "the record of the restore in the audit: "+err.Error())
		return
	}
	end(nil)
}

func (r *restoring) has(part Part) bool { return slices.Contains(r.parts, part) }

// isDoubted reports whether the place has a master key and the archive is not signed with it.
func (r *restoring) isDoubted() bool { return r.keys != nil && !r.archive.isSigned }

// notEmpty is the error of a place that has content.
func (r *restoring) notEmpty(what string) error {
	return fmt.Errorf("%s is not empty: it has %s; --force replaces what is there", r.place, what)
}

// toDirectory restores to the data directory.
func (r *restoring) toDirectory(ctx context.Context) (err error) {
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
	defer func() {
		if err == nil {
			r.note()
		}
		_ = store.Close() // nothing is written through it
	}()
	if err := r.checkDirectory(store); err != nil {
		return err
	}
	r.stage = store.Data().Path(durable.Unfinished("restore"))
	if err := r.stageConfiguration(); err != nil {
		return err
	}
	theirs, err := access.ReadStored(store.Data())
	if err != nil {
		r.done.Notes = append(r.done.Notes, "what was revoked there is not known: "+err.Error())
	}
	if err := r.stageValues(theirs); err != nil {
		return err
	}
	if err := r.stageFiles(); err != nil {
		return err
	}
	replaced := append([]string{versionsDir}, ownFiles()...)
	for i := range r.kept {
		if _, name := r.place.path(&r.kept[i]); name != "" {
			replaced = append(replaced, name)
		}
	}
	if err := r.stageDocuments(); err != nil {
		return err
	}
	exchange := func(*sql.Tx) error {
		return store.Exchange(func() error {
			err := r.exchange(dir, r.stage, replaced)
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
	text, err := json.Marshal(r.restored(), json.Deterministic(true))
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

func (r *restoring) restored() restored {
	made := "an unknown time"
	if !r.done.Made.IsZero() {
		made = r.done.Made.UTC().Format(time.RFC3339)
	}
	if r.isDoubted() {
		made += " without a signature"
	}
	return restored{time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), made}
}

// ownFiles are the files of the data directory that a restore replaces.
func ownFiles() []string {
	return []string{"keys.json", "keys.sealed.json", "taken-over.json", unconfirmedFile}
}

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
	if err := r.stageVersions(); err != nil {
		return err
	}
	c, err := readStaged(r.stage, r.keys)
	if err != nil {
		return err
	}
	r.done.Versions, r.done.Current = len(c.numbers), c.head.Version
	r.done.countValues(r.values)
	head := c.head
	r.source = head.Source
	head.Source, head.Position = versions.Restored, versions.Position{}
	return versions.NewSealedStore(files.Peek(r.stage), r.keys).SetHead(head)
}

// stageVersions writes the versions of the archive to the stage, and reads its values.
func (r *restoring) stageVersions() (err error) {
	if r.archive.isDownload {
		r.values, err = r.archive.stageDownload(r.stage, r.keys)
	} else {
		for name := range r.archive.Files {
			if !strings.HasPrefix(name, versionsDir+"/") || r.isDoubted() && strings.HasSuffix(name, ".sig") {
				continue
			}
			if err := r.archive.unpack(name, filepath.Join(r.stage, filepath.FromSlash(name))); err != nil {
				return err
			}
		}
		err = r.archive.decode(valuesName, &r.values)
	}
	if err != nil || !r.isDoubted() {
		return err
	}
	// The versions are signed, with a doubt about all of their content.
	store := files.Peek(r.stage)
	sealed := versions.NewSealedStore(store, r.keys)
	numbers, err := store.Versions()
	if err != nil {
		return err
	}
	for _, number := range numbers {
		v, err := sealed.Load(number)
		if err != nil {
			return err
		}
		v.SetRestored(r.id)
		if err := sealed.Save(v); err != nil {
			return err
		}
	}
	head, err := store.Head()
	head.File, head.FileSettings = nil, nil
	return errors.Join(err, sealed.SetHead(head))
}

// restoreValues completes the values, which take the place of others.
func (r *restoring) restoreValues(theirs map[string]access.StoredValue) error {
	values, err := access.Restored(r.values, theirs, r.keys, r.id)
	if err != nil {
		return err
	}
	r.values = values
	if r.isDoubted() {
		about, err := json.Marshal(unconfirmed{r.id, r.done.SHA256}, json.Deterministic(true))
		if err != nil {
			return err
		}
		r.values[unconfirmedName] = access.StoredValue{Data: about,
			Signatures: []string{r.keys.SignValue(unconfirmedName, about)}}
	}
	if r.keys == nil || !r.isDoubted() && !r.archive.isDownload {
		return nil
	}
	for _, thing := range things() { // documents without a signature are not read
		name, value := markPrefix+string(thing), []byte("true")
		r.values[name] = access.StoredValue{Data: value, Signatures: []string{r.keys.SignValue(name, value)}}
	}
	return nil
}

// stageValues writes the values to the stage.
func (r *restoring) stageValues(theirs map[string]access.StoredValue) error {
	if err := r.restoreValues(theirs); err != nil {
		return err
	}
	dir := durable.At(r.stage)
	marks, err := takeover.Open(takeover.Options{Keys: r.keys, Data: dir, Log: discard()})
	if err != nil {
		return err
	}
	for name := range r.values {
		if thing, isMark := strings.CutPrefix(name, markPrefix); isMark {
			marks.Found(takeover.Thing(thing))
		}
	}
	if value, has := r.values[unconfirmedName]; has {
		text, err := json.Marshal(value, json.Deterministic(true))
		if err == nil {
			err = dir.Write(unconfirmedFile, text)
		}
		if err != nil {
			return err
		}
	}
	return access.WriteStored(dir, r.values)
}

// stageDocuments writes the documents to the stages. Those of files and batches are beside their
// contents.
func (r *restoring) stageDocuments() error {
	merged, filed := map[string]documents.Document{}, map[string][]documents.Document{}
	merge := func(doc documents.Document) error { //nolint:unparam // as eachDocument calls it
		if before, has := merged[doc.Kind+"/"+doc.ID]; !has || doc.Created.After(before.Created) {
			merged[doc.Kind+"/"+doc.ID] = doc
		}
		return nil
	}
	isReplaced := func(k documents.Kept) bool { return !k.IsMerged }
	if _, err := r.place.eachDocument(slices.DeleteFunc(slices.Clone(r.kept), isReplaced), merge); err != nil {
		return err
	}
	dirs := map[string]*durable.Dir{}
	write := func(doc documents.Document) (err error) {
		_, name := r.place.path(keptOf(r.kept, doc.Kind))
		path := filepath.Join(r.stage, name)
		if name == "" {
			path = filepath.Join(r.stagedFiles, documentsDir)
		}
		if dirs[path] == nil {
			if dirs[path], err = durable.Open(path); err != nil {
				return err
			}
		}
		return documents.WriteFile(dirs[path], doc)
	}
	err := r.eachDocument(func(doc documents.Document) error {
		switch k := keptOf(r.kept, doc.Kind); {
		case k.IsMerged:
			return merge(doc)
		case k.File != "":
			filed[k.File] = append(filed[k.File], doc)
			return nil
		}
		return write(doc)
	})
	if err != nil {
		return err
	}
	if err := r.eachUnseen(merge); err != nil {
		return err
	}
	for _, doc := range merged {
		err = errors.Join(err, write(doc))
	}
	for i := range r.kept {
		if file := r.kept[i].File; len(filed[file]) > 0 {
			content, failed := r.kept[i].Write(filed[file])
			err = errors.Join(err, failed, durable.At(r.stage).Write(file, content))
		}
	}
	return err
}

// eachUnseen calls a function with a document for each owner of a key: who is not known counts as seen
// now, so that the keys do not sleep.
func (r *restoring) eachUnseen(visit func(documents.Document) error) error {
	for _, owner := range access.Owners(r.values) {
		doc, err := sessions.SeenAt(owner.Issuer, owner.Subject, owner.Name, time.Now().UTC())
		if err == nil {
			err = visit(documents.Sign(r.keys, doc))
		}
		if err != nil {
			return err
		}
	}
	return nil
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
	return nil
}

// eachDocument calls a function with the documents of the archive, and counts them. Of an archive that is
// signed it signs those that a data directory has without signatures, in a file. It marks those of another
// one, and leaves out those that would be merged.
func (r *restoring) eachDocument(visit func(documents.Document) error) error {
	if r.archive.files[documentsName] == nil {
		return nil // of a download
	}
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
			k := keptOf(r.kept, doc.Kind)
			if err == nil && k != nil && !(r.isDoubted() && k.IsMerged) {
				r.done.countDocument(doc.Kind)
				if r.isDoubted() {
					doc = documents.SignRestored(r.keys, r.id, doc)
				} else if k.File != "" && r.archive.From == fromDirectory {
					doc = documents.Sign(r.keys, doc)
				}
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
