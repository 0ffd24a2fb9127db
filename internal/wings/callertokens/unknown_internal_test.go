package callertokens

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The log names each unknown issuer once a minute, escaped and cut, and at most 16 of them a minute.
func TestUnknownIssuersAreLoggedWithinBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var u unknown
		note := func(issuer string) (logged string) {
			log.Reset()
			u.note(slog.New(slog.NewTextHandler(&log, nil)), issuer, time.Now())
			_, logged, _ = strings.Cut(strings.TrimSuffix(log.String(), "\n"), " issuer=")
			return logged
		}
		for issuer, want := range map[string]string{
			"https://login.example/":                       "https://login.example/",
			"a\nlevel=ERROR \x1b[31m\u202e":                `"a\\nlevel=ERROR \\x1b[31m\\u202e"`,
			strings.Repeat("i", 1000):                      strings.Repeat("i", 128),
			strings.Repeat("\u202e", 100):                  strings.Repeat(`\u202e`, 21) + `\u`,
			strings.Repeat("j", 127) + "\u00e9 cut in two": strings.Repeat("j", 127) + `\`,
		} {
			if got := note(issuer); got != want {
				t.Errorf("issuer %q: got %s, want %s", issuer, got, want)
			}
			<-time.After(59 * time.Second) // of the bubble
			if got := note(issuer); got != "" {
				t.Errorf("issuer %q, again within a minute: got %s, want nothing", issuer, got)
			}
			<-time.After(time.Second)
			if got := note(issuer); got != want {
				t.Errorf("issuer %q, after a minute: got %s, want %s", issuer, got, want)
			}
		}
		<-time.After(time.Minute)
		logged := 0
		for i := range 1000 {
			if note(fmt.Sprint("issuer-", i)) != "" {
				logged++
			}
		}
		if logged != 16 || len(u.seen) > 16 {
			t.Errorf("got %d of 1000 issuers in a minute and %d remembered, want 16", logged, len(u.seen))
		}
		<-time.After(time.Minute)
		if note("issuer-999") == "" {
			t.Error("a minute later another issuer is not logged")
		}
	})
}
