package access

import (
	"crypto/sha256"
	"log/slog"
	"sync/atomic"
	"time"
)

// disabled logs uses of the credentials that a restore has disabled. A nil one logs none.
type disabled struct {
	word   string
	report *slog.Logger
	by     map[[sha256.Size]byte]*disabledOne
}

// disabledOne is one of them. Its use is logged at most once in usePause.
type disabledOne struct {
	name   string
	logged atomic.Int64
}

const usePause = time.Minute

// disabled returns the credentials that a restore has disabled, by their hashes.
func (k *kind[T, P]) disabled() *disabled {
	d := &disabled{word: k.word, report: k.owner.report, by: map[[sha256.Size]byte]*disabledOne{}}
	for _, issued := range k.issued {
		p := P(&issued).parts()
		if sum, ok := decodeHash(*p.hash); ok && p.life.DisabledBy != "" && p.life.RevokedAt.IsZero() {
			d.by[sum] = &disabledOne{name: *p.name}
		}
	}
	return d
}

// note logs the use of a credential, by the hash of its text, if it is disabled.
func (d *disabled) note(sum [sha256.Size]byte, now time.Time) {
	if d == nil || d.by[sum] == nil {
		return
	}
	one := d.by[sum]
	if before := one.logged.Load(); now.Sub(time.Unix(0, before)) >= usePause &&
		one.logged.CompareAndSwap(before, now.UnixNano()) {
		d.report.Warn("a request is refused: a backup without a signature had its "+d.word+", and the restore is not "+
			"confirmed; stop the gateway and run patchbay restore --confirm, or let an ADMIN enable it",
			d.word, one.name)
	}
}

// warnOfDisabled counts the credentials that a restore has disabled.
func (c *Credentials) warnOfDisabled() {
	if keys, tokens := len(c.Keys.disabled().by), len(c.Tokens.disabled().by); keys+tokens > 0 {
		c.report.Warn("a backup without a signature was restored and is not confirmed: its keys and tokens are "+
			"refused until patchbay restore --confirm, or until an ADMIN enables each", "keys", keys, "tokens", tokens)
	}
}
