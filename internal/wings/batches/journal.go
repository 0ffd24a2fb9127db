package batches

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// record is the answer to a line, as a journal has it.
type record struct {
	Line      int            `json:"line"`
	CustomID  string         `json:"id"`
	Status    int            `json:"status"`
	RequestID string         `json:"request"`
	Body      jsontext.Value `json:"body"`
	// Prompt, Completion and Cost are what the call used.
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

// A journal begins with a mark and, if it is sealed, the head of its box. A record has a head
// of its length, its checksum and its number, which is part of what seals it.
const (
	journalMark   = "pbj1"
	sealedJournal = "pbk1"
	recordHead    = 16
	largestRecord = 1 << 30
	journalPrefix = "answers-"
)

func checksums() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// journal is where one process writes answers of one batch. Answers that come while others
// are synced are synced together.
type journal struct {
	folder string
	id     string // of the batch
	keys   *seal.Keys
	sums   *crc32.Table
	// before is called before each write and each sync, which fails if it returns an error;
	// nil means no call. Tests use it to inject faults.
	before func(step string) error

	mu      sync.Mutex
	file    *os.File // nil before the first record, and after a failure
	box     *seal.Box
	number  uint64
	isUsed  bool    // something was synced in the file
	next    *commit // of the records that wait
	syncing bool
}

// commit is records that are synced together.
type commit struct {
	data []byte
	done chan struct{}
	err  error
}

func newJournal(folder, id string, keys *seal.Keys) *journal {
	return &journal{folder: folder, id: id, keys: keys, sums: checksums()}
}

func journalPurpose(id string) string { return "answers of " + id }

// add writes a record and returns when it is synced. After an error it may be there or not:
// adding it again does no harm.
func (j *journal) add(r *record) (int, error) {
	payload, err := json.Marshal(r, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	if err := j.open(); err != nil {
		j.mu.Unlock()
		return 0, err
	}
	if j.next == nil {
		j.next = &commit{done: make(chan struct{})}
	}
	mine := j.next
	before := len(mine.data)
	mine.data = j.frame(mine.data, payload)
	size := len(mine.data) - before
	leads := !j.syncing
	j.syncing = true
	j.mu.Unlock()
	if leads {
		j.commitAll()
	}
	<-mine.done
	return size, mine.err
}

// frame appends a record to data.
func (j *journal) frame(data, payload []byte) []byte {
	at := len(data)
	data = append(data, make([]byte, recordHead)...)
	data = j.box.Seal(data, j.number, payload)
	sealed := data[at+recordHead:]
	binary.BigEndian.PutUint32(data[at:], uint32(len(sealed)))
	binary.BigEndian.PutUint64(data[at+8:], j.number)
	binary.BigEndian.PutUint32(data[at+4:], crc32.Update(crc32.Checksum(data[at+8:at+recordHead], j.sums), j.sums, sealed))
	j.number++
	return data
}

// commitAll writes and syncs what waits, until nothing does. One at a time calls it, so that
// isUsed needs no lock here.
func (j *journal) commitAll() {
	for {
		j.mu.Lock()
		now, file := j.next, j.file
		j.next = nil
		if now == nil {
			j.syncing = false
			j.mu.Unlock()
			return
		}
		j.mu.Unlock()
		if now.err = j.write(file, now.data); now.err != nil {
			j.abandon(file)
		} else {
			j.isUsed = true
		}
		close(now.done)
	}
}

func (j *journal) write(file *os.File, data []byte) error {
	if file == nil {
		return errClosed
	}
	if err := j.step("write"); err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		return err
	}
	if err := j.step("sync"); err != nil {
		return err
	}
	return file.Sync()
}

func (j *journal) step(name string) error {
	if j.before == nil {
		return nil
	}
	return j.before(name)
}

// abandon leaves a file of which it is not known how much of it a crash would leave. The next
// record begins another one, and those that wait fail.
func (j *journal) abandon(file *os.File) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == file && file != nil {
		_ = file.Close()
		if !j.isUsed {
			_ = os.Remove(file.Name()) // on a disk that stays full there would be more and more of them
		}
		j.file = nil
	}
	if failed := j.next; failed != nil { // its records are framed for the same file
		j.next, failed.err = nil, errClosed
		close(failed.done)
	}
}

var errClosed = errors.New("the journal was closed")

// open makes the file of the journal, if there is none.
func (j *journal) open() error {
	if j.file != nil {
		return nil
	}
	if err := os.MkdirAll(j.folder, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(j.folder, documents.RandomID(journalPrefix)), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	head := []byte(journalMark)
	if j.keys != nil {
		var more []byte
		more, j.box = j.keys.NewBox(journalPurpose(j.id))
		head = append([]byte(sealedJournal), more...)
	}
	if _, err = file.Write(head); err == nil {
		err = errors.Join(syncFolder(j.folder), syncFolder(filepath.Dir(j.folder)))
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return err
	}
	j.file, j.number, j.isUsed = file, 0, false
	return nil
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// close closes the journal.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		_ = j.file.Close()
		j.file = nil
	}
}

// place is where a record is.
type place struct {
	file int   // the index among the journals of the batch
	at   int64 // of its payload
	size uint32
	num  uint64
}

// answersOf are the journals of a batch, to be read.
type answersOf struct {
	files []*os.File
	boxes []*seal.Box
}

// scan reads all journals of a batch and calls use with each record and its place. A journal
// ends where a crash, or a write that goes on, left a record incomplete. One that cannot be read
// is passed over if the function, which may be nil, says so.
func scan(folder, id string, keys *seal.Keys, use func(*record, place), passOver func(error) bool) (*answersOf, error) {
	a := new(answersOf)
	names, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	sort.Slice(names, func(i, k int) bool { return names[i].Name() < names[k].Name() })
	for _, entry := range names {
		if !strings.HasPrefix(entry.Name(), journalPrefix) {
			continue
		}
		err := a.scanFile(filepath.Join(folder, entry.Name()), id, keys, use)
		if err == nil {
			continue
		}
		if err = fmt.Errorf("the answers of %s in %s: %w", id, entry.Name(), err); passOver == nil || !passOver(err) {
			a.close()
			return nil, err
		}
	}
	return a, nil
}

func (a *answersOf) scanFile(path, id string, keys *seal.Keys, use func(*record, place)) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	index := len(a.files)
	a.files, a.boxes = append(a.files, file), append(a.boxes, nil)
	// What a process that was killed had written and not synced counts from now on.
	if err := file.Sync(); err != nil {
		return err
	}
	in := bufio.NewReaderSize(file, 256<<10)
	mark := make([]byte, len(journalMark))
	if _, err := io.ReadFull(in, mark); err != nil {
		return endOfJournal(err)
	}
	at := int64(len(mark))
	if string(mark) == sealedJournal {
		head := make([]byte, seal.BoxHead)
		if _, err := io.ReadFull(in, head); err != nil {
			return endOfJournal(err)
		}
		at += seal.BoxHead
		if a.boxes[index], err = keys.OpenBox(journalPurpose(id), head); err != nil {
			return err
		}
	}
	sums := checksums()
	var head [recordHead]byte
	var sealed, payload []byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return endOfJournal(err)
		}
		size := binary.BigEndian.Uint32(head[:])
		if size > largestRecord {
			return nil // it was never written whole
		}
		if cap(sealed) < int(size) {
			sealed = make([]byte, size)
		}
		sealed = sealed[:size]
		if _, err := io.ReadFull(in, sealed); err != nil {
			return endOfJournal(err)
		}
		if crc32.Update(crc32.Checksum(head[8:], sums), sums, sealed) != binary.BigEndian.Uint32(head[4:]) {
			return nil
		}
		found := place{file: index, at: at + recordHead, size: size, num: binary.BigEndian.Uint64(head[8:])}
		at += recordHead + int64(size)
		if payload, err = a.boxes[index].Open(payload[:0], found.num, sealed); err != nil {
			return err
		}
		var r record
		if err := json.Unmarshal(payload, &r, jsontext.AllowDuplicateNames(true)); err != nil {
			return err
		}
		use(&r, found)
	}
}

func endOfJournal(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// read returns a record.
func (a *answersOf) read(p place) (*record, error) {
	sealed := make([]byte, p.size)
	if _, err := a.files[p.file].ReadAt(sealed, p.at); err != nil {
		return nil, err
	}
	payload, err := a.boxes[p.file].Open(nil, p.num, sealed)
	if err != nil {
		return nil, err
	}
	r := new(record)
	return r, json.Unmarshal(payload, r, jsontext.AllowDuplicateNames(true))
}

func (a *answersOf) close() {
	for _, file := range a.files {
		_ = file.Close()
	}
}
