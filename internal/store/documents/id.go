package documents

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// An id with the time of creation has timeMark behind the prefix, and then the time in
// milliseconds. No id without a time has the mark there: a text of rand.Text has neither
// 0 nor 1.
const (
	timeMark   = '0'
	timeBase   = 32
	timeDigits = 9
)

// RandomID returns an id that cannot be guessed, after a prefix.
func RandomID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// NewID returns an id that cannot be guessed, after a prefix that ends with - or _ and
// has none before. The id contains the time of creation: a list can begin after a
// document that was deleted.
func NewID(prefix string, created time.Time) string { return RandomID(Dated(prefix, created)) }

// Dated returns the beginning of an id with a time of creation.
func Dated(prefix string, created time.Time) string {
	digits := strconv.FormatInt(max(created.UnixMilli(), 0), timeBase)
	return prefix + string(timeMark) + strings.Repeat("0", max(timeDigits-len(digits), 0)) + digits
}

// createdOf returns the time of creation in an id, if the id has one.
func createdOf(id string) (time.Time, bool) {
	text := id[strings.IndexAny(id, "-_")+1:]
	if len(text) <= timeDigits || text[0] != timeMark {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(text[1:timeDigits+1], timeBase, 64)
	return time.UnixMilli(ms).UTC(), err == nil && ms >= 0
}
