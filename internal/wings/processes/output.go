package processes

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

const (
	// maxLine bounds the kept part of a line, and maxLines the kept lines of a process.
	maxLine  = 1 << 10
	maxLines = 200
	// lineBurst is how many lines of a process are logged at once, and lineRate how many in
	// a second after that. A process may write faster than anybody reads, and a log has to
	// be stored.
	lineBurst = 500
	lineRate  = 20
)

// Line is a line that a process wrote.
type Line struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// output keeps the last lines that a process wrote, and passes them to a log as far as its
// rate allows.
type output struct {
	mu    sync.Mutex
	lines []Line // the last ones
	since int    // how many of these the process wrote since it was started

	partial  []byte // of the line that is being written
	isCut    bool   // the rest of that line is left out
	tokens   float64
	refilled time.Time
	unlogged int64 // lines that were not logged since the last that was
	log      func(text string, unlogged int64)
	faults   *slog.Logger // receives panics
}

// Write takes the output of the process. It never fails, and never waits for anybody.
func (o *output) Write(data []byte) (int, error) {
	logs.Contain(o.faults, "reading what a process prints", func() { o.take(data) })
	return len(data), nil
}

func (o *output) take(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(data) > 0 {
		end := bytes.IndexAny(data, "\r\n")
		piece := data
		if end >= 0 {
			piece = data[:end]
		}
		if room := maxLine - len(o.partial); len(piece) > room {
			piece, o.isCut = piece[:room], true
		}
		o.partial = append(o.partial, piece...)
		if end < 0 {
			break
		}
		o.endLine()
		data = data[end+1:]
	}
}

// flush ends a line that has no end of its own.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLine()
}

func (o *output) endLine() {
	if len(o.partial) == 0 {
		return
	}
	text := printable(string(o.partial))
	if o.isCut {
		text += " ..."
	}
	o.partial, o.isCut = o.partial[:0], false
	now := time.Now()
	o.lines = append(o.lines, Line{now, text})
	o.lines = slices.Delete(o.lines, 0, max(0, len(o.lines)-maxLines))
	o.since++
	if !o.mayLog(now) {
		o.unlogged++
		return
	}
	if o.log != nil {
		o.log(text, o.unlogged)
	}
	o.unlogged = 0
}

func (o *output) mayLog(now time.Time) bool {
	o.tokens = min(lineBurst, o.tokens+now.Sub(o.refilled).Seconds()*lineRate) // full at the first line
	o.refilled = now
	if o.tokens < 1 {
		return false
	}
	o.tokens--
	return true
}

// printable makes a text that a log and a page can show: valid UTF-8 without control
// characters, mostly colours.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// begin is called when the process is started.
func (o *output) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = 0
}

// lastLine returns the text of the last line since the start, empty if there is none.
func (o *output) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since == 0 {
		return ""
	}
	return o.lines[len(o.lines)-1].Text
}

// last returns the last lines, the oldest first.
func (o *output) last() []Line {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]Line{}, o.lines...)
}
