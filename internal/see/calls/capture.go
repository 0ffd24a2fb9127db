package calls

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

const (
	// maxContent bounds the kept text of a request and of an answer.
	maxContent = 64 << 10
	// maxCaptured bounds all kept headers and texts, also of running requests.
	maxCaptured = 16 << 20
	// growth is the smallest step that the room for a text grows by.
	growth = 2 << 10
	// longestRun is how many characters of base64 may follow each other; only the beginning
	// of a longer run is kept, because it is a picture, a sound or a vector.
	longestRun, runShown = 256, 16
)

// Captured holds the parts of a request that are kept beside its record. Only one goroutine
// at a time may use it until the record is finished, and nobody changes it after that.
type Captured struct {
	// What lists the kept members.
	What    metrics.Capture `json:"kept"`
	Headers []Header        `json:"headers,omitzero"`
	Request Content         `json:"request,omitzero"`
	Answer  Content         `json:"answer,omitzero"`

	room     *captures
	reserved int
	number   uint64 // of the record, once it has one
}

// Header is a header of a request. IsMasked says that its value is a mask.
type Header struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	IsMasked bool   `json:"masked,omitzero"`
}

// Content is a body: its length, and the part of it that is text.
type Content struct {
	Type  string
	Bytes int64
	// Text is the beginning of the body; IsCut says that it is not the whole body, or
	// that long runs of base64 are missing in it.
	Text  []byte
	IsCut bool

	run    int  // how many characters of base64 came last
	isFull bool // nothing more is kept
}

// SetHeaders keeps headers of the request. The caller has masked secret values.
func (c *Captured) SetHeaders(headers []Header) {
	for i, h := range headers {
		if !c.room.reserve(c, len(h.Name)+len(h.Value)) {
			headers = headers[:i]
			break
		}
	}
	c.Headers = headers
}

// AddRequest keeps a part of the body of the request.
func (c *Captured) AddRequest(contentType string, part []byte) { c.add(&c.Request, contentType, part) }

// AddAnswer keeps a part of the body of the answer.
func (c *Captured) AddAnswer(contentType string, part []byte) { c.add(&c.Answer, contentType, part) }

func (c *Captured) add(to *Content, contentType string, part []byte) {
	if c.What < metrics.CaptureContent {
		return
	}
	if to.Type != contentType {
		to.Type = strings.Clone(contentType) // it may be a part of a head
	}
	to.Bytes += int64(len(part))
	if !isText(contentType) {
		return
	}
	for i := 0; i < len(part) && !to.isFull; i++ {
		b := part[i]
		switch {
		case !isBase64(b):
			if to.run > longestRun {
				c.append(to, []byte("[…"+strconv.Itoa(to.run)+" characters]")...)
			}
			to.run = 0
			c.append(to, b)
			continue
		case to.run < longestRun:
			c.append(to, b)
		case to.run == longestRun:
			to.Text, to.IsCut = to.Text[:len(to.Text)-longestRun+runShown], true
		}
		to.run++
	}
}

// append adds to a text, or ends it where there is no room.
func (c *Captured) append(to *Content, text ...byte) {
	grown := cap(to.Text)
	if len(to.Text)+len(text) > grown {
		grown = min(max(2*grown, growth), maxContent)
	}
	if len(to.Text)+len(text) > grown || grown > cap(to.Text) && !c.room.reserve(c, grown-cap(to.Text)) {
		to.IsCut, to.isFull = true, true
		return
	}
	if grown > cap(to.Text) {
		to.Text = append(make([]byte, 0, grown), to.Text...)
	}
	to.Text = append(to.Text, text...)
}

// isText reports whether a body of this type is kept as a text.
func isText(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	switch {
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "+json"):
		return true
	}
	// Clients such as curl send JSON as a form unless they are told otherwise.
	return kind == "" || kind == "application/json" || kind == "application/x-ndjson" ||
		kind == "application/x-www-form-urlencoded" ||
		kind == "multipart/form-data" // its fields are listed, without the files
}

func isBase64(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '+' || b == '/' || b == '=' ||
		b == '-' || b == '_'
}

// String returns the text without a character that was cut through.
func (to *Content) String() string {
	text := to.Text
	for n := 0; n < utf8.UTFMax && to.IsCut && len(text) > 0; n++ {
		if r, size := utf8.DecodeLastRune(text); r != utf8.RuneError || size > 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// captures keeps the captured parts of requests after their records reached the readers,
// and counts the bytes that all of them hold. The oldest make room for new ones.
type captures struct {
	mu      sync.Mutex
	most    metrics.Capture // nothing beyond is kept
	used    int
	records []*Captured // the oldest first
}

// reserve makes room for a request that is not kept yet. False means that requests that
// still run hold all the room.
func (k *captures) reserve(c *Captured, bytes int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.used+bytes > maxCaptured && len(k.records) > 0 {
		k.dropOldest()
	}
	if k.used+bytes > maxCaptured {
		return false
	}
	k.used += bytes
	c.reserved += bytes
	return true
}

// keep stores the captured parts of the record with a number. Numbers grow.
func (k *captures) keep(number uint64, c *Captured) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.What > k.most {
		k.free(c) // it was switched off while the request ran
		return
	}
	c.number = number
	k.records = append(k.records, c)
}

// dropBefore drops the captured parts of records before a number, which nobody can ask for.
func (k *captures) dropBefore(number uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.records) > 0 && k.records[0].number < number {
		k.dropOldest()
	}
}

func (k *captures) dropOldest() {
	k.free(k.records[0])
	k.records[0] = nil
	k.records = k.records[1:]
}

// release gives back the room of a request that is not kept.
func (k *captures) release(c *Captured) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free(c)
}

func (k *captures) free(c *Captured) {
	k.used -= c.reserved
	c.reserved = 0
}

// limit drops everything if less is to be kept than before.
func (k *captures) limit(most metrics.Capture) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for most < k.most && len(k.records) > 0 {
		k.dropOldest()
	}
	k.most = most
}

// of returns the captured parts of the record with a number, or nil if there are none.
func (k *captures) of(number uint64) *Captured {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, isKept := slices.BinarySearchFunc(k.records, number,
		func(c *Captured, n uint64) int { return cmp.Compare(c.number, n) })
	if !isKept {
		return nil
	}
	return k.records[at]
}
