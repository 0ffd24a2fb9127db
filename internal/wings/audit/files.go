package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// Files keeps the chains of a gateway in a directory. Its files with records are called
// CHAIN-SEQ.jsonl, after the chain and the first record in them, or low-CHAIN-SEQ.jsonl.
type Files struct {
	dir *durable.Dir
	// grown are the files that grow: of the first chain, and of the second one.
	grown [2]grown
	// intents are those in the file of intents.
	intents     map[string]Intent
	intentsFile grown
}

// grown is a file that grows. The file is nil if it is not open.
type grown struct {
	file durable.File
	name string
	size int64
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
func NewFiles(dir *durable.Dir) *Files {
	return &Files{dir: dir, intents: map[string]Intent{}, intentsFile: grown{name: intentsName}}
}

// segment is a file with records.
type segment struct {
	file  string
	isLow bool
	chain int
	first int64
}

const lowPrefix = "low-"

func segmentName(isLow bool, chain int, first int64) string {
	name := fmt.Sprintf("%04d-%012d%s", chain, first, suffix)
	if isLow {
		name = lowPrefix + name
	}
	return name
}

// placeOf returns the chain and the first record of a file with records.
func placeOf(name string) (s segment, ok bool) {
	s.file = name
	rest, isLow := strings.CutPrefix(name, lowPrefix)
	s.isLow = isLow
	_, err := fmt.Sscanf(rest, "%d-%d"+suffix, &s.chain, &s.first)
	return s, err == nil && name == segmentName(isLow, s.chain, s.first)
}

// segments lists the files with records: first those of the first chain, the oldest first.
func (f *Files) segments() (list []segment, err error) {
	names, err := f.dir.Names()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(names)
	for _, name := range names {
		if s, ok := placeOf(name); ok {
			list = append(list, s)
		}
	}
	return list, err
}

// segmentsOf lists the files of the first or the second chain.
func (f *Files) segmentsOf(isLow bool) ([]segment, error) {
	list, err := f.segments()
	return slices.DeleteFunc(list, func(s segment) bool { return s.isLow != isLow }), err
}

// of returns the file of a chain that grows.
func (f *Files) of(name string) *grown {
	if IsLow(name) {
		return &f.grown[1]
	}
	return &f.grown[0]
}

// KeepsMarks reports that the data directory keeps marks.
func (f *Files) KeepsMarks() bool { return false }

// SetMark does nothing.
func (f *Files) SetMark(context.Context, string, string) error { return nil }

// Load returns the end of the newest chain of a name. It removes the half of a record that a crash
// left at its end.
func (f *Files) Load(_ context.Context, name string) (s State, err error) {
	list, err := f.segmentsOf(IsLow(name))
	if err != nil {
		return s, err
	}
	if text, err := f.dir.Read(RestoredFile); err == nil {
		if err := json.Unmarshal(text, &s.Restored); err != nil {
			return s, fmt.Errorf("%s: %w", RestoredFile, err)
		}
	}
	if err := f.loadEnd(&s, f.of(name), list); err != nil {
		return s, err
	}
	if s.Last.Gateway != "" && s.Last.Gateway != name {
		s.Fault = "it belongs to the gateway " + s.Last.Gateway
	}
	if s.Intents, err = f.loadIntents(name); err != nil {
		return s, err
	}
	heads, err := f.Heads(context.Background(), 0)
	if i := slices.IndexFunc(heads, func(h Head) bool { return h.Gateway == name }); i >= 0 {
		s.Head = heads[i]
	}
	return s, err
}

// loadEnd reads the ends of the newest chain. A file without a whole record is left by a crash.
func (f *Files) loadEnd(s *State, to *grown, list []segment) error {
	for len(list) > 0 {
		newest := list[len(list)-1]
		content, err := f.dir.Read(newest.file)
		if err != nil {
			return err
		}
		whole := content[:bytes.LastIndexByte(content, '\n')+1]
		if len(whole) < len(content) {
			if err := os.Truncate(f.dir.Path(newest.file), int64(len(whole))); err != nil {
				return err
			}
		}
		if len(whole) == 0 {
			if err := f.dir.Remove(newest.file); err != nil {
				return err
			}
			list = list[:len(list)-1]
			continue
		}
		s.Chain = newest.chain
		lines := bytes.Split(whole[:len(whole)-1], []byte("\n"))
		if s.Last, err = Read(lines[len(lines)-1]); err != nil {
			s.Fault = "its last record does not hold: " + err.Error()
		}
		first, _ := Read(lines[0])
		s.Began, _ = time.Parse(timeFormat, first.Time)
		s.Bytes = int64(len(whole))
		f.close(to)
		to.name, to.size = newest.file, s.Bytes
		s.First = f.firstTime(s.Chain, list)
		return nil
	}
	return nil
}

// firstTime returns when the first record of a chain was made.
func (f *Files) firstTime(chain int, list []segment) string {
	at := slices.IndexFunc(list, func(s segment) bool { return s.chain == chain })
	if lines, _ := f.lines(list[at].file); len(lines) > 0 {
		first, _ := Read(lines[0])
		return first.Time
	}
	return ""
}

// loadIntents reads the intents of a chain that were not recorded. A line without a record forgets
// an intent. The last line may be the half of one, of an operation that did not begin.
func (f *Files) loadIntents(name string) (open []Intent, err error) {
	content, err := f.dir.Read(intentsName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(content) {
		var intent Intent
		if json.Unmarshal(line, &intent) != nil || !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		if intent.Record.Time == "" {
			delete(f.intents, intent.ID)
			open = slices.DeleteFunc(open, func(i Intent) bool { return i.ID == intent.ID })
		} else if f.intents[intent.ID] = intent; intent.Record.Gateway == name {
			open = append(open, intent)
		}
	}
	f.intentsFile.size = int64(len(content))
	return open, nil
}

// Intend keeps an intent.
func (f *Files) Intend(_ context.Context, intent Intent) error {
	err := f.addIntent(intent)
	if err == nil {
		f.intents[intent.ID] = intent
	}
	return err
}

func (f *Files) addIntent(intent Intent) error {
	line, err := json.Marshal(intent)
	if err != nil {
		return err
	}
	return f.grow(&f.intentsFile, append(line, '\n'))
}

// open opens a file to grow, and makes it if there is none.
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
func (f *Files) grow(to *grown, data []byte) (err error) {
	if to.file == nil {
		if to.file, err = f.open(to.name); err != nil {
			return err
		}
	}
	if _, err = to.file.Write(data); err == nil {
		err = to.file.Sync()
	}
	if err != nil {
		err = errors.Join(err, to.file.Close(), os.Truncate(f.dir.Path(to.name), to.size))
		to.file = nil
		return err
	}
	to.size += int64(len(data))
	return nil
}

// Append adds records to a chain.
func (f *Files) Append(_ context.Context, b Batch) error {
	if err := f.append(b); err != nil {
		return err
	}
	for _, id := range b.Done {
		delete(f.intents, id)
	}
	if len(f.intents) == 0 && f.intentsFile.size > 0 {
		// If a crash undoes this, the records of the intents are found.
		if err := os.Truncate(f.dir.Path(intentsName), 0); err == nil {
			f.intentsFile.size = 0
			return nil
		}
	}
	for _, id := range b.Done {
		if len(b.Records) == 0 { // otherwise the record is found
			if err := f.addIntent(Intent{ID: id}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Files) append(b Batch) error {
	if len(b.Records) == 0 {
		return nil
	}
	var text []byte
	for i := range b.Records {
		text = append(text, b.Records[i].Line()...)
	}
	to := f.of(b.Name)
	if name := segmentName(IsLow(b.Name), b.Chain, b.Records[0].Seq); (b.Begins || to.name == "") && to.name != name {
		f.close(to)
		to.name, to.size = name, 0
	}
	return f.grow(to, text)
}

func (f *Files) close(g *grown) {
	if g.file != nil {
		_ = g.file.Close() // all of it is synced
	}
	g.file = nil
}

// Close closes the files.
func (f *Files) Close() {
	for _, g := range []*grown{&f.grown[0], &f.grown[1], &f.intentsFile} {
		f.close(g)
	}
}

// lines returns the whole lines of a file with records; none if it was removed meanwhile.
func (f *Files) lines(name string) ([][]byte, error) {
	content, err := f.dir.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	end := bytes.LastIndexByte(content, '\n') // the rest is being written
	if end < 0 {
		return nil, err
	}
	return bytes.Split(content[:end], []byte("\n")), nil
}

// Each calls a function with all records, the oldest first.
func (f *Files) Each(ctx context.Context, visit func(chain int, line []byte) error) error {
	list, err := f.segments()
	for _, s := range list {
		var lines [][]byte
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			lines, err = f.lines(s.file)
		}
		for _, line := range lines {
			if err == nil {
				err = visit(s.chain, line)
			}
		}
	}
	return err
}

// After returns the records of a chain behind a number.
func (f *Files) After(_ context.Context, name string, chain int, seq int64, limit int) (found []Record, err error) {
	list, err := f.segmentsOf(IsLow(name))
	if err != nil {
		return nil, err
	}
	for i, s := range list {
		if s.chain != chain || i+1 < len(list) && list[i+1].chain == chain && list[i+1].first <= seq+1 {
			continue // all of its records were read
		}
		lines, err := f.lines(s.file)
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			var r Record
			if json.Unmarshal(line, &r) == nil && r.Seq > seq {
				found = append(found, r)
			}
			if len(found) == limit {
				return found, nil
			}
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
	to := grown{name: headsName, size: size}
	defer f.close(&to)
	if content, err := f.dir.Read(headsName); err == nil && size > 0 && content[len(content)-1] != '\n' {
		line = append([]byte("\n"), line...) // behind the half that a crash left
	}
	return f.grow(&to, line)
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
		isLast := !slices.ContainsFunc(heads[i+1:min(len(heads), i+3)], func(next Head) bool {
			return next.Gateway == h.Gateway && next.Time[:day] == h.Time[:day]
		})
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

// Old returns the beginnings of chains that have to be removed. The files that grow stay.
func (f *Files) Old(_ context.Context, before time.Time, room int64) (spans []Span, err error) {
	all, err := f.segmentsOf(true)
	used, lowRoom := int64(0), room/2
	for _, isLow := range []bool{true, false} {
		if !isLow && err == nil {
			room -= min(used, lowRoom)
			all, err = f.segmentsOf(false)
		}
		if err != nil {
			return nil, err
		}
		left := room
		if isLow {
			left = lowRoom
		}
		found, size, err := f.oldOf(all, before, left)
		if err != nil {
			return nil, err
		}
		spans, used = append(spans, found...), size
	}
	return spans, nil
}

// oldOf returns the beginnings to remove from the files of one kind, and the size of the others.
func (f *Files) oldOf(list []segment, before time.Time, room int64) (spans []Span, left int64, err error) {
	var sizes []int64
	for _, s := range list {
		size, err := f.dir.Size(s.file)
		if err != nil {
			return nil, 0, err
		}
		sizes, left = append(sizes, size), left+size
	}
	for i, s := range list[:max(len(list)-1, 0)] {
		var last Record
		lines, err := f.lines(s.file)
		if len(lines) > 0 {
			last, _ = Read(lines[len(lines)-1]) // a record that does not hold is removed like the others
		}
		if err != nil || left <= room && last.Time >= Stamp(before) {
			return spans, left, err
		}
		left -= sizes[i]
		span := Span{last.Gateway, s.chain, last.Seq, last.Hash, last.Time}
		if n := len(spans); n > 0 && spans[n-1].Chain == s.chain {
			spans[n-1] = span
		} else {
			spans = append(spans, span)
		}
	}
	return spans, left, nil
}

// Remove removes the files of a span.
func (f *Files) Remove(_ context.Context, span Span) error {
	list, err := f.segmentsOf(IsLow(span.Gateway))
	for _, s := range list[:max(len(list)-1, 0)] {
		if err == nil && s.chain == span.Chain && s.first <= span.Last {
			err = f.dir.Remove(s.file)
		}
	}
	return err
}
