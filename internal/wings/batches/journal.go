package batches

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/journal"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// record is the answer to a line, as a journal has it.
type record struct {
	Line      int            `json:"line"`
	CustomID  string         `json:"id"`
	Status    int            `json:"status"`
	RequestID string         `json:"request"`
	Body      jsontext.Value `json:"body"`
	// Prompt, Completion and Cost are the usage of the call.
	Prompt     int64 `json:"prompt,omitzero"`
	Completion int64 `json:"completion,omitzero"`
	Cost       int64 `json:"cost,omitzero"`
}

func (r *record) isAnswer() bool { return r.Status >= 200 && r.Status < 300 }

func (r *record) counts() Counts {
	c := Counts{Prompt: r.Prompt, Completion: r.Completion, Cost: r.Cost}
	if r.isAnswer() {
		c.Done = 1
	} else {
		c.Failed = 1
	}
	return c
}

// journalPrefix begins the names of the files of answers. Each process has files of its own.
const journalPrefix = "answers-"

func journalPurpose(id string) string { return "answers of " + id }

// answers is the journal of one process for the answers of one batch. Answers that come
// while others are synced are synced together.
type answers struct {
	dir  *durable.Dir
	id   string // of the batch
	keys *seal.Keys

	mu     sync.Mutex
	file   *journal.Writer // nil before the first record, and after a failure
	name   string          // of the file
	box    *seal.Box
	number uint64
	text   []byte
}

// newAnswers returns where answers are written. Tests give a function that is called before each
// step, which fails if that returns an error.
func newAnswers(folder, id string, keys *seal.Keys, before func(durable.Step) error) *answers {
	a := &answers{dir: durable.At(folder), id: id, keys: keys}
	a.dir.Before = before
	return a
}

// add writes a record and returns its size when it is synced. After an error it may be there or
// not: adding it again does no harm.
func (a *answers) add(r *record) (int, error) {
	payload, err := json.Marshal(r, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	size, err := a.write(payload)
	file := a.file
	if err != nil {
		a.mu.Unlock()
		return 0, err
	}
	end := file.Size()
	a.mu.Unlock()
	if err = file.Sync(end); err != nil {
		a.abandon(file)
	}
	return size, err
}

// write adds a record to the file, which it makes if there is none, and returns its size. The lock
// is held.
func (a *answers) write(payload []byte) (size int, err error) {
	if a.file == nil {
		if err := a.open(); err != nil {
			return 0, err
		}
	}
	text := journal.Answers.End(append(journal.Answers.Begin(a.text[:0]), payload...), 0, a.box, a.number)
	a.number++
	if a.text = text; len(text) > keptText {
		a.text = nil
	}
	if err := a.file.Write(text); err != nil {
		a.leave()
		return 0, err
	}
	return len(text), nil
}

// keptText is the size of the longest text with memory that is used again.
const keptText = 64 << 10

// abandon leaves a file if it is unknown how much of it would survive a crash. The next
// record begins another one.
func (a *answers) abandon(file *journal.Writer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == file {
		a.leave()
	}
}

// leave closes the file, and removes one that nobody relies on: on a disk that stays full there
// would be more and more of them. The lock is held.
func (a *answers) leave() {
	_ = a.file.Close()
	if a.file.Synced() == 0 {
		_ = os.Remove(a.dir.Path(a.name))
	}
	a.file = nil
}

// open makes the file.
func (a *answers) open() error {
	if err := a.dir.Make(); err != nil {
		return err
	}
	name := documents.RandomID(journalPrefix)
	out, err := a.dir.Append(name)
	if err != nil {
		return err
	}
	head, box := journal.Answers.Head(a.keys, journalPurpose(a.id))
	file, err := journal.NewWriter(out, head)
	if err != nil {
		_ = os.Remove(a.dir.Path(name)) // the first error counts
		return err
	}
	a.file, a.name, a.box, a.number = file, name, box, 0
	return nil
}

// close closes the file.
func (a *answers) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file != nil {
		_ = a.file.Close()
		a.file = nil
	}
}

// answerFile is a file of answers that is read.
type answerFile struct {
	*os.File
	box *seal.Box
}

// Rekey returns a function that seals the answers in a folder with the current key.
func Rekey(folder string) func(*store.Rekeying) error {
	return func(r *store.Rekeying) error {
		paths, err := filepath.Glob(filepath.Join(r.Path(folder), "*", journalPrefix+"*"))
		for _, path := range paths {
			r.Done(path, journal.Answers.Reseal(path, r.Keys, journalPurpose(filepath.Base(filepath.Dir(path))),
				r.IsFirst))
		}
		return err
	}
}

// place is the place of a record.
type place struct {
	in   *answerFile
	at   int64 // of its payload
	size int
	num  uint64
}

// answersOf are the files of answers of a batch, to be read.
type answersOf struct {
	files []*answerFile
	// cut has the number of bytes at the end of a file that are no record, by its name.
	cut map[string]int64
}

// scan reads all answers of a batch and calls use with each record and its place. A file
// ends where a crash, or a write that goes on, left a record incomplete. One that cannot be read
// is passed over if the function, which may be nil, says so.
func scan(folder, id string, keys *seal.Keys, use func(*record, place), passOver func(error) bool) (*answersOf, error) {
	all := &answersOf{cut: map[string]int64{}}
	entries, err := os.ReadDir(folder) // sorted by name
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), journalPrefix) {
			continue
		}
		err := all.scanFile(filepath.Join(folder, entry.Name()), id, keys, use)
		if err == nil {
			continue
		}
		if err = fmt.Errorf("the answers of %s in %s: %w", id, entry.Name(), err); passOver == nil || !passOver(err) {
			all.close()
			return nil, err
		}
	}
	return all, nil
}

func (all *answersOf) scanFile(path, id string, keys *seal.Keys, use func(*record, place)) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	in := &answerFile{File: file}
	all.files = append(all.files, in)
	// Records that a killed process had written and not synced count from now on.
	if err := file.Sync(); err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	reader, err := journal.Answers.NewReader(file, info.Size(), keys, journalPurpose(id))
	if err != nil {
		return err
	}
	if in.box = reader.Box(); in.box == nil && keys != nil && reader.Damage().HasMark {
		return errors.New("it is not sealed, and there is a master key")
	}
	var payload []byte
	for reader.Next() {
		if payload, err = reader.Open(payload[:0]); err != nil {
			return err
		}
		var r record
		if err := json.Unmarshal(payload, &r, jsontext.AllowDuplicateNames(true)); err != nil {
			return err
		}
		use(&r, place{in, reader.At, len(reader.Body), reader.Number})
	}
	if cut := reader.Damage().Cut; cut > 0 {
		all.cut[filepath.Base(path)] = cut
	}
	return reader.Err()
}

// read returns a record.
func (p place) read() (*record, error) {
	sealed := make([]byte, p.size)
	if _, err := p.in.ReadAt(sealed, p.at); err != nil {
		return nil, err
	}
	payload, err := p.in.box.Open(nil, p.num, sealed)
	if err != nil {
		return nil, err
	}
	r := new(record)
	return r, json.Unmarshal(payload, r, jsontext.AllowDuplicateNames(true))
}

func (all *answersOf) close() {
	for _, file := range all.files {
		_ = file.Close()
	}
}
