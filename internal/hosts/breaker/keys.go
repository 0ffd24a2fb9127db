package breaker

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// keyHash is the hash of an API key.
type keyHash uint64

// noKey is the hash of no key.
const noKey keyHash = 0

// keys holds the last two API keys with successful calls. For any key they show when another
// one succeeded last, however many there are.
type keys struct {
	seed   maphash.Seed
	latest [2]success
	mu     sync.Mutex // held while an entry gets another key
}

type success struct {
	key atomic.Uint64
	at  atomic.Int64 // of the last success, counted from the start of the breaker
}

func newKeys() keys { return keys{seed: maphash.MakeSeed()} }

func (k *keys) hash(key string) keyHash { return max(keyHash(maphash.String(k.seed, key)), noKey+1) }

// succeeded notes a success of a key.
func (k *keys) succeeded(key keyHash, at int64) {
	if k.refresh(key, at) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refresh(key, at) {
		return
	}
	older := &k.latest[0]
	if other := &k.latest[1]; older.key.Load() != uint64(noKey) &&
		(other.key.Load() == uint64(noKey) || other.at.Load() < older.at.Load()) {
		older = other
	}
	older.at.Store(at)
	older.key.Store(uint64(key))
}

// refresh notes a success of a key that has an entry, and reports whether it has one.
func (k *keys) refresh(key keyHash, at int64) bool {
	for i := range k.latest {
		if k.latest[i].key.Load() == uint64(key) {
			k.latest[i].at.Store(at)
			return true
		}
	}
	return false
}

// hasOther reports whether a call of another key succeeded at the given time or later.
func (k *keys) hasOther(than keyHash, since int64) bool {
	for i := range k.latest {
		if key := keyHash(k.latest[i].key.Load()); key != noKey && key != than && k.latest[i].at.Load() >= since {
			return true
		}
	}
	return false
}
