package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/journal"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

const (
	// frame is how many bytes are encrypted together: any part of a content can be read
	// without the bytes before it.
	frame = 64 << 10
	// checkEvery is the number of bytes between two looks at the room while a content
	// grows, mostAhead how much is taken ahead at most when it has grown, and patience how
	// long the answer may take.
	checkEvery = 1 << 20
	mostAhead  = 16 << 20
	patience   = 10 * time.Second
)

// openFolder opens the folder of contents. If other processes use it too, unfinished files
// are left alone: they may be theirs.
func openFolder(path string, isShared bool) (*durable.Dir, error) {
	if !isShared {
		return durable.Open(path)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	return durable.At(path), nil
}

// purposeOf is the purpose in the derivation of the key of a file's content: its id and who
// sees it.
func purposeOf(file *File) string {
	return "file " + file.ID + " of " + file.Owner.Scope()
}

// Upload is a file that is being written. It must be ended by Commit or Abort.
type Upload struct {
	store   *Store
	file    File
	out     *os.File
	box     *seal.Box
	part    []byte // of a frame that is not full
	sealed  []byte
	frames  uint64
	checked int64 // there is room up to this size
	flushed int64 // of the content, to the disk
	// held is the room counted for it until it has ended.
	held  documents.Use
	ended bool
	limit int64
	// isCounted says that the bounds hold for it, unlike for a file of CreateOwn.
	isCounted bool
}

// Create begins a file. The name, the purpose, the owner and whether it is hidden are
// given; without an id it gets one, and without an end it gets the end of the settings. Its
// place among the files of its owner is taken at once.
func (s *Store) Create(ctx context.Context, file File) (*Upload, error) {
	place := documents.Use{Count: 1, Bytes: block}
	if err := s.take(ctx, file.Owner.Scope(), place); err != nil {
		return nil, err
	}
	u, err := s.begin(file, place)
	if err == nil {
		u.limit, u.isCounted = int64(s.o.Settings().MaxSize), true
	}
	return u, err
}

// CreateOwn is Create for a file that the gateway itself makes from content that had room
// before, such as answers: it may be one more than the owner may have if no other gives way
// to it, and larger than the free room.
func (s *Store) CreateOwn(file File) (*Upload, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	place := documents.Use{Count: 1, Bytes: block}
	if err := s.force(ctx, file.Owner.Scope(), place); err != nil {
		return nil, err
	}
	return s.begin(file, place)
}

// force takes places and room for an owner. Others give way if they can; otherwise it goes
// beyond the bounds.
func (s *Store) force(ctx context.Context, scope string, more documents.Use) error {
	err := s.take(ctx, scope, more)
	if !errors.As(err, new(*shortage)) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(scope, more)
	return nil
}

// begin begins a file in a place that is held already.
func (s *Store) begin(file File, place documents.Use) (*Upload, error) {
	settings := s.o.Settings()
	if file.Created.IsZero() {
		file.Created = time.Now().UTC().Truncate(time.Second)
	}
	if file.ID == "" {
		file.ID = documents.NewID("file-", file.Created)
	}
	if file.Expires.IsZero() {
		file.Expires = file.Created.Add(settings.Retention.Std())
	}
	u := &Upload{store: s, file: file, held: place, limit: math.MaxInt64}
	if err := u.open(); err != nil {
		u.Abort()
		return nil, diskError(err)
	}
	return u, nil
}

// open makes the file for the content, and begins it.
func (u *Upload) open() (err error) {
	name := durable.Unfinished(documents.RandomID(u.file.ID + "-"))
	if u.out, err = os.OpenFile(u.store.dir.Path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	head, box := journal.Contents.Head(u.store.o.Keys, purposeOf(&u.file))
	u.box, u.file.IsSealed = box, box != nil
	_, err = u.out.Write(head)
	return err
}

// Write adds to the content.
func (u *Upload) Write(p []byte) (int, error) {
	if u.file.Bytes+int64(len(p)) > u.limit {
		return 0, ErrTooLarge
	}
	if err := u.take(u.file.Bytes + int64(len(p))); err != nil {
		return 0, err
	}
	written := 0
	for len(p) > 0 {
		n := min(frame-len(u.part), len(p))
		u.part = append(u.part, p[:n]...)
		p = p[n:]
		written += n
		u.file.Bytes += int64(n)
		if len(u.part) == frame {
			if err := u.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// take takes room for a content of a size, some time ahead of it.
func (u *Upload) take(size int64) error {
	if size <= u.checked {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	need := size - u.checked
	more := (need + checkEvery - 1) / checkEvery * checkEvery
	scope := u.file.Owner.Scope()
	// As much again as there is: where gateways share a database, each look takes a while of it.
	ahead := min(u.checked, mostAhead) / checkEvery * checkEvery
	err := u.store.tryTake(ctx, scope, documents.Use{Bytes: max(more, ahead)})
	if err == nil {
		more = max(more, ahead)
	} else if ahead > more {
		err = u.store.tryTake(ctx, scope, documents.Use{Bytes: more})
	}
	switch {
	case errors.As(err, new(*shortage)) && !u.isCounted:
		err = u.store.force(ctx, scope, documents.Use{Bytes: more})
	case errors.As(err, new(*shortage)), errors.Is(err, ErrDiskFull):
		more = need // the rest may be less than is taken ahead
		err = u.store.take(ctx, scope, documents.Use{Bytes: more})
	}
	if err == nil {
		u.checked += more
		u.held.Bytes += more
	}
	return err
}

// flush writes the frame that was begun.
func (u *Upload) flush() error {
	if len(u.part) == 0 {
		return nil
	}
	u.sealed = u.box.Seal(u.sealed[:0], u.frames, u.part)
	u.frames++
	u.flushed += int64(len(u.part))
	u.store.written(int64(len(u.part)))
	u.part = u.part[:0]
	_, err := u.out.Write(u.sealed)
	return diskError(err)
}

// Size returns how long the content is so far.
func (u *Upload) Size() int64 { return u.file.Bytes }

// Describe changes the name and the purpose of the file.
func (u *Upload) Describe(filename, purpose string) {
	u.file.Filename, u.file.Purpose = filename, purpose
}

// KeepFor changes how long the file is kept.
func (u *Upload) KeepFor(lifetime time.Duration) { u.file.Expires = u.file.Created.Add(lifetime) }

// Commit ends the file: it is there when Commit returns without an error, also after a crash.
func (u *Upload) Commit(ctx context.Context) (File, error) {
	defer u.Abort() // has no effect after success
	data, err := json.Marshal(u.file, json.Deterministic(true))
	if err == nil {
		err = u.flush()
	}
	if err == nil {
		err = diskError(u.out.Sync())
	}
	if err != nil {
		return File{}, err
	}
	if err := u.out.Close(); err != nil {
		return File{}, diskError(err)
	}
	doc := documents.Document{
		Kind: Kind, ID: u.file.ID, Scope: u.file.Owner.Scope(), Created: u.file.Created, Bytes: u.file.Bytes,
		Data: data,
	}
	err = u.store.dir.Move(filepath.Base(u.out.Name()), u.file.ID)
	if err == nil {
		err = u.describe(ctx, doc)
	}
	if err != nil {
		_ = u.store.dir.Remove(u.file.ID) // without a description it would be neither listed nor counted
		return File{}, diskError(err)
	}
	u.end(true)
	return u.file, nil
}

// describe stores the description of the file, unless other gateways have taken the last place
// meanwhile.
func (u *Upload) describe(ctx context.Context, doc documents.Document) error {
	had, err := u.store.o.Documents.Get(ctx, doc.Kind, doc.ID)
	switch {
	case err == nil:
		doc.Version = had.Version // it was made before a crash, and is made again
	case !errors.Is(err, documents.ErrNotFound):
		return err
	}
	if u.isCounted && u.store.o.IsShared {
		own, _, err := u.store.use(ctx, doc.Scope)
		if err != nil {
			return err
		}
		if own.Count >= u.store.o.Settings().MaxFiles {
			return ErrTooMany
		}
	}
	_, err = u.store.o.Documents.Put(ctx, doc)
	return err
}

// Abort removes the written part. After Commit it has no effect.
func (u *Upload) Abort() {
	if u.ended {
		return
	}
	u.end(false)
	if u.out != nil {
		_ = u.out.Close()
		_ = os.Remove(u.out.Name())
	}
}

// end gives back the room that was held for the file.
func (u *Upload) end(isKept bool) {
	u.ended = true
	u.store.release(u.file.Owner.Scope(), u.held, u.held.Bytes-u.flushed, isKept)
}

// Content is the content of a file. Any part of it can be read.
type Content struct {
	in    *os.File
	box   *seal.Box
	head  int64
	size  int64
	known int64 // the number of the frame that was read last, from 1; 0 for none
	plain []byte
	raw   []byte
}

// Open opens the content of a file. It must be closed.
func (s *Store) Open(file File) (*Content, error) {
	in, err := os.Open(s.dir.Path(file.ID))
	if err != nil {
		return nil, err
	}
	c := &Content{in: in, size: file.Bytes}
	if err := c.readHead(&file, s.o.Keys); err != nil {
		_ = in.Close()
		return nil, fmt.Errorf("the content of %s: %w", file.ID, err)
	}
	return c, nil
}

func (c *Content) readHead(file *File, keys *seal.Keys) error {
	head := make([]byte, journal.LongestHead)
	n, err := c.in.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r, err := journal.Contents.Parse(head[:n], keys, purposeOf(file))
	if err == nil && (!r.Damage().HasMark || r.Box() == nil && file.IsSealed) {
		err = errDamaged
	}
	c.head, c.box = r.Start(), r.Box()
	return err
}

// Seal seals the content of the file that a document describes with the current key, and notes that in the
// document. A content that is missing was deleted.
func Seal(r *store.Rekeying, folder string, doc *documents.Document) error {
	file, err := decode(*doc)
	if err != nil {
		return err
	}
	sealing := &Store{o: Options{Keys: r.Keys}, dir: durable.At(r.Path(folder))}
	content, err := sealing.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // it was only read
	if content.box == nil && !r.IsFirst {
		return store.ErrUnsigned
	}
	if !content.box.IsCurrent() {
		err = sealing.dir.Fill(file.ID, func(to io.Writer) error {
			text, box := journal.Contents.Head(r.Keys, purposeOf(&file))
			part := make([]byte, frame)
			for number := int64(0); ; number++ {
				if _, err := to.Write(text); err != nil || number*frame >= file.Bytes {
					return err
				}
				part = part[:min(frame, file.Bytes-number*frame)]
				if n, err := content.ReadAt(part, number*frame); n < len(part) {
					return errors.Join(errDamaged, err)
				}
				text = box.Seal(text[:0], uint64(number), part)
			}
		})
	}
	if file.IsSealed = true; err == nil {
		doc.Data, err = json.Marshal(file, json.Deterministic(true))
	}
	return err
}

var errDamaged = errors.New("it is damaged")

// Size returns how long the content is.
func (c *Content) Size() int64 { return c.size }

// ReadAt reads a part of the content. It must not be called at the same time by several.
func (c *Content) ReadAt(p []byte, at int64) (int, error) {
	if c.box == nil {
		return io.NewSectionReader(c.in, c.head, c.size).ReadAt(p, at)
	}
	read := 0
	for len(p) > 0 {
		if at >= c.size {
			return read, io.EOF
		}
		if err := c.readFrame(at / frame); err != nil {
			return read, err
		}
		n := copy(p, c.plain[at%frame:])
		p = p[n:]
		at += int64(n)
		read += n
	}
	return read, nil
}

// readFrame reads the frame of a number.
func (c *Content) readFrame(number int64) error {
	if c.known == number+1 {
		return nil
	}
	c.known = 0
	length := min(frame, c.size-number*frame) + seal.BoxOverhead
	if cap(c.raw) < int(length) {
		c.raw = make([]byte, frame+seal.BoxOverhead)
	}
	c.raw = c.raw[:length]
	if _, err := c.in.ReadAt(c.raw, c.head+number*(frame+seal.BoxOverhead)); err != nil {
		return errors.Join(errDamaged, err)
	}
	var err error
	if c.plain, err = c.box.Open(c.plain[:0], uint64(number), c.raw); err != nil {
		return err
	}
	c.known = number + 1
	return nil
}

// From returns a reader of the content from a place on.
func (c *Content) From(at int64) io.Reader { return io.NewSectionReader(c, at, c.size-at) }

// Close closes the content.
func (c *Content) Close() error { return c.in.Close() }
