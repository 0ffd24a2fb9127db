package callertokens

import (
	"log/slog"
	"strconv"
	"sync"
	"time"
)

// Bounds of the issuers that the log names, because callers write these names.
const (
	maxUnknown    = 16
	longestIssuer = 128
	unknownPause  = time.Minute
)

// unknown logs the issuers of tokens that the settings do not have: each at most once a minute, and at
// most maxUnknown a minute.
type unknown struct {
	mu   sync.Mutex
	seen map[string]time.Time // when each was logged
}

func (u *unknown) note(log *slog.Logger, issuer string, now time.Time) {
	name := strconv.QuoteToASCII(issuer[:min(len(issuer), longestIssuer)])
	name = name[1 : len(name)-1]
	name = name[:min(len(name), longestIssuer)]
	u.mu.Lock()
	defer u.mu.Unlock()
	for other, logged := range u.seen {
		if now.Sub(logged) >= unknownPause {
			delete(u.seen, other)
		}
	}
	if _, isKnown := u.seen[name]; isKnown || len(u.seen) >= maxUnknown {
		return
	}
	if u.seen == nil {
		u.seen = map[string]time.Time{}
	}
	u.seen[name] = now
	log.Warn("a token is refused: no security.jwt has its issuer; compare it exactly, a slash at the end included",
		"issuer", name)
}
