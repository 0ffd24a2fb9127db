package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// Files keeps a chain in a directory. Its files with records are called CHAIN-SEQ.jsonl,
// after the chain and the first record in them.
type Files struct {
	dir *durable.Dir
	// file is the one that grows, nil where none is open; name and size are its own.
	file durable.File
	name string
	size int64
	// intents are those in the file of intents, which is nil where none is open.
	intents     map[string]Intent
	intentsFile durable.File
	intentsSize int64
}

var _ Store = (*Files)(nil)

// The other files of the directory.
const (
	suffix      = ".jsonl"
	intentsName = "intents.log"
	headsName   = "heads.log"
	keysName    = "keys.json"
)

// NewFiles returns the store of a directory.
func NewFiles(dir *durable.Dir) *Files { return &Files{dir: dir, intents: map[string]Intent{}} }

func segmentName(chain int, first int64) string {
	return fmt.Sprintf("%04d-%012d%s", chain, first, suffix)
}

// placeOf returns the chain and the first record of a file with records.
func placeOf(name string) (chain int, first int64, ok bool) {
	if _, err := fmt.Sscanf(name, "%d-%d"+suffix, &chain, &first); err != nil || name != segmentName(chain, first) {
		return 0, 0, false
	}
	return chain, first, true
}

// segments lists the files with records, the oldest first.
func (f *Files) segments() ([]string, error) {
	names, err := f.dir.Names()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, _, ok := placeOf(name); return !ok })
	slices.Sort(names)
	return names, err
}

// Load returns the end of the newest chain. It removes the half of a record that a crash left
// at its end.
func (f *Files) Load(_ context.Context, gateway string) (s State, err error) {
	names, err := f.segments()
	if err != nil {
		return s, err
	}
	if text, err := f.dir.Read(RestoredFile); err == nil {
		if err := json.Unmarshal(text, &s.Restored); err != nil {
			return s, fmt.Errorf("%s: %w", RestoredFile, err)
		}
	}
	if err := f.loadEnd(&s, names); err != nil {
		return s, err
	}
	if s.Last.Gateway != "" && s.Last.Gateway != gateway {
		s.Fault = "it belongs to the gateway " + s.Last.Gateway
	}
	if s.Intents, err = f.loadIntents(); err != nil {
		return s, err
	}
	heads, err := f.Heads(context.Background(), 1)
	if len(heads) > 0 {
		s.Head = heads[0]
	}
	return s, err
}

// loadEnd reads the ends of the newest chain. A file without a whole record is left by a crash.
func (f *Files) loadEnd(s *State, names []string) error {
	for len(names) > 0 {
		name := names[len(names)-1]
		content, err := f.dir.Read(name)
		if err != nil {
			return err
		}
		whole := content[:bytes.LastIndexByte(content, '\n')+1]
		if len(whole) < len(content) {
			if err := os.Truncate(f.dir.Path(name), int64(len(whole))); err != nil {
				return err
			}
		}
		if len(whole) == 0 {
			if err := f.dir.Remove(name); err != nil {
				return err
			}
			names = names[:len(names)-1]
			continue
		}
		s.Chain, _, _ = placeOf(name)
		lines := bytes.Split(whole[:len(whole)-1], []byte("\n"))
		if s.Last, err = Read(lines[len(lines)-1]); err != nil {
			s.Fault = "its last record does not hold: " + err.Error()
		}
		first, _ := Read(lines[0])
		s.Began, _ = time.Parse(timeFormat, first.Time)
		s.Bytes, f.name, f.size = int64(len(whole)), name, int64(len(whole))
		s.First = f.firstTime(s.Chain, names)
		return nil
	}
	return nil
}

// firstTime returns when the first record of a chain was made.
func (f *Files) firstTime(chain int, names []string) string {
	for _, name := range names {
		if of, _, _ := placeOf(name); of != chain {
			continue
		}
		content, err := f.dir.Read(name)
		if err != nil {
			return ""
		}
		line, _, _ := bytes.Cut(content, []byte("\n"))
		first, _ := Read(line)
		return first.Time
	}
	return ""
}

// loadIntents reads the intents that were not recorded. The last line may be the half of one,
// of an operation that did not begin.
func (f *Files) loadIntents() (open []Intent, err error) {
	content, err := f.dir.Read(intentsName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(content) {
		var intent Intent
		if json.Unmarshal(line, &intent) == nil && bytes.HasSuffix(line, []byte("\n")) {
			open = append(open, intent)
			f.intents[intent.ID] = intent
		}
	}
	f.intentsSize = int64(len(content))
	return open, nil
}

// Intend keeps an intent.
func (f *Files) Intend(_ context.Context, _ string, intent Intent) error {
	line, err := json.Marshal(intent)
	if err != nil {
		return err
	}
	if f.intentsFile == nil {
		if f.intentsFile, err = f.open(intentsName); err != nil {
			return err
		}
	}
	if err := f.grow(&f.intentsFile, intentsName, &f.intentsSize, append(line, '\n')); err != nil {
		return err
	}
	f.intents[intent.ID] = intent
	return nil
}

// open opens a file to grow, and makes it where there is none.
func (f *Files) open(name string) (durable.File, error) {
	file, err := os.OpenFile(f.dir.Path(name), os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return f.dir.Append(name)
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// grow adds bytes to a file for good. After an error the file is as it was, and closed: a
// later sync could succeed although the bytes are lost.
func (f *Files) grow(file *durable.File, name string, size *int64, data []byte) error {
	_, err := (*file).Write(data)
	if err == nil {
		err = (*file).Sync()
	}
	if err != nil {
		err = errors.Join(err, (*file).Close(), os.Truncate(f.dir.Path(name), *size))
		*file = nil
		return err
	}
	*size += int64(len(data))
	return nil
}

// Append adds records to the chain.
func (f *Files) Append(_ context.Context, chain int, begins bool, records []Record, done []string) error {
	if err := f.append(chain, begins, records); err != nil {
		return err
	}
	for _, id := range done {
		delete(f.intents, id)
	}
	if len(f.intents) == 0 && f.intentsSize > 0 {
		// If a crash undoes this, the records of the intents are found.
		if err := os.Truncate(f.dir.Path(intentsName), 0); err == nil {
			f.intentsSize = 0
		}
	}
	return nil
}

func (f *Files) append(chain int, begins bool, records []Record) (err error) {
	if len(records) == 0 {
		return nil
	}
	var text []byte
	for i := range records {
		text = append(text, records[i].Line()...)
	}
	if name := segmentName(chain, records[0].Seq); (begins || f.name == "") && f.name != name {
		f.close(&f.file)
		f.name, f.size = name, 0
	}
	if f.file == nil {
		if f.file, err = f.open(f.name); err != nil {
			return err
		}
	}
	return f.grow(&f.file, f.name, &f.size, text)
}

func (f *Files) close(file *durable.File) {
	if *file != nil {
		_ = (*file).Close() // all of it is synced
	}
	*file = nil
}

// Close closes the files.
func (f *Files) Close() {
	f.close(&f.file)
	f.close(&f.intentsFile)
}

// lines calls a function with the whole lines of a file with records.
func (f *Files) lines(name string, visit func(line []byte) error) error {
	content, err := f.dir.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its time has come meanwhile
	}
	if err != nil {
		return err
	}
	for line := range bytes.Lines(content) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return nil // it is being written
		}
		if err := visit(line[:len(line)-1]); err != nil {
			return err
		}
	}
	return nil
}

// Each calls a function with all records, the oldest first.
func (f *Files) Each(ctx context.Context, visit func(chain int, line []byte) error) error {
	names, err := f.segments()
	for _, name := range names {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		chain, _, _ := placeOf(name)
		err = f.lines(name, func(line []byte) error { return visit(chain, line) })
	}
	return err
}

// Search returns the newest records that a query asks for.
func (f *Files) Search(ctx context.Context, q Query) (found []Record, total int, err error) {
	names, err := f.segments()
	for _, name := range slices.Backward(names) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, 0, err
		}
		var matching []Record
		err = f.lines(name, func(line []byte) error {
			var r Record
			if json.Unmarshal(line, &r) == nil && q.Matches(&r) {
				matching = append(matching, r)
			}
			return nil
		})
		for _, r := range slices.Backward(matching) {
			if total++; total > q.Skip && len(found) < q.Limit {
				found = append(found, r)
			}
		}
	}
	return found, total, err
}

// After returns the records of a chain behind a number.
func (f *Files) After(_ context.Context, _ string, chain int, seq int64, limit int) (found []Record, err error) {
	names, err := f.segments()
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if of, _, _ := placeOf(name); of != chain {
			continue
		}
		if i+1 < len(names) {
			if of, first, _ := placeOf(names[i+1]); of == chain && first <= seq+1 {
				continue // all of its records were read
			}
		}
		err := f.lines(name, func(line []byte) error {
			var r Record
			if json.Unmarshal(line, &r) != nil || r.Seq <= seq {
				return nil
			}
			if found = append(found, r); len(found) == limit {
				return io.EOF
			}
			return nil
		})
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Heads returns the newest heads, the newest first.
func (f *Files) Heads(_ context.Context, limit int) (heads []Head, err error) {
	content, err := f.dir.Read(headsName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lines := bytes.Split(content, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		var h Head
		if json.Unmarshal(line, &h) != nil { // the half that a crash left
			continue
		}
		if heads = append(heads, h); len(heads) == limit {
			break
		}
	}
	return heads, nil
}

// mostHeads is how many bytes of heads are kept before the older ones are thinned out.
const mostHeads = 1 << 20

// AddHead adds a head.
func (f *Files) AddHead(ctx context.Context, h Head) error {
	size, err := f.dir.Size(headsName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	line := append(canonical(h), '\n')
	if size+int64(len(line)) > mostHeads {
		if err := f.thinHeads(ctx); err != nil {
			return err
		}
		if size, err = f.dir.Size(headsName); err != nil {
			return err
		}
	}
	file, err := f.open(headsName)
	if err != nil {
		return err
	}
	defer func() { f.close(&file) }()
	if content, err := f.dir.Read(headsName); err == nil && size > 0 && content[len(content)-1] != '\n' {
		line = append([]byte("\n"), line...) // behind the half that a crash left
	}
	return f.grow(&file, headsName, &size, line)
}

// thinHeads keeps the newer half of the heads, and the last head of each day before. Every head
// covers all records before it.
func (f *Files) thinHeads(ctx context.Context) error {
	heads, err := f.Heads(ctx, 0)
	if err != nil {
		return err
	}
	slices.Reverse(heads)
	const day = len("2006-01-02")
	var text []byte
	for i, h := range heads {
		isLast := i+1 == len(heads) || heads[i+1].Time[:day] != h.Time[:day]
		if i >= len(heads)/2 || isLast {
			text = append(text, append(canonical(h), '\n')...)
		}
	}
	return f.dir.Write(headsName, text)
}

// Keys returns the public keys.
func (f *Files) Keys(context.Context) (keys []PublicKey, err error) {
	text, err := f.dir.Read(keysName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	return keys, err
}

// SetKey adds or changes a public key.
func (f *Files) SetKey(ctx context.Context, key PublicKey) error {
	keys, err := f.Keys(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(keys, func(k PublicKey) bool { return k.ID == key.ID && k.Gateway == key.Gateway })
	if at < 0 {
		keys = append(keys, key)
	} else {
		keys[at] = key
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	return f.dir.Write(keysName, text)
}

// Old returns the beginnings of chains that have to leave. The file that grows stays.
func (f *Files) Old(_ context.Context, before time.Time, room int64) (spans []Span, err error) {
	names, err := f.segments()
	if err != nil || len(names) < 2 {
		return nil, err
	}
	var sizes []int64
	all := int64(0)
	for _, name := range names {
		size, err := f.dir.Size(name)
		if err != nil {
			return nil, err
		}
		sizes, all = append(sizes, size), all+size
	}
	for i, name := range names[:len(names)-1] {
		last, err := f.lastOf(name)
		if err != nil {
			return spans, err
		}
		if all <= room && last.Time >= Stamp(before) {
			break
		}
		all -= sizes[i]
		chain, _, _ := placeOf(name)
		span := Span{last.Gateway, chain, last.Seq, last.Hash, last.Time}
		if n := len(spans); n > 0 && spans[n-1].Chain == chain {
			spans[n-1] = span
		} else {
			spans = append(spans, span)
		}
	}
	return spans, nil
}

func (f *Files) lastOf(name string) (last Record, err error) {
	err = f.lines(name, func(line []byte) error {
		last, _ = Read(line) // a record that does not hold leaves like the others
		return nil
	})
	return last, err
}

// Remove removes the files of a span.
func (f *Files) Remove(_ context.Context, s Span) error {
	names, err := f.segments()
	for i, name := range names {
		chain, first, _ := placeOf(name)
		if err != nil || chain > s.Chain || chain == s.Chain && first > s.Last || i == len(names)-1 {
			break
		}
		if chain == s.Chain {
			err = f.dir.Remove(name)
		}
	}
	return err
}
