package fleet

import (
	"fmt"

	"github.com/minio/highwayhash"
)

// Secret keys the hashes of blocks. Gateways that exchange news share one, and nobody
// without it can ask an index whether somebody wrote a text. It is never shown, however
// it is printed.
type Secret [highwayhash.Size]byte

const hidden = "****"

// Format writes stars in place of the secret.
func (Secret) Format(state fmt.State, _ rune) { _, _ = state.Write([]byte(hidden)) }

// MarshalText returns stars in place of the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// SetSecret gives the fleet the secret on which gateways have agreed. Blocks under another
// one are of no use any more: the fleet forgets them, the messages of other gateways, and
// the news for them. Queues and speeds stay. A prompt that was borrowed before finds
// nothing, and nothing of it is kept.
func (f *Fleet) SetSecret(secret Secret) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *f.secret.Load() == secret {
		return
	}
	f.secret.Store(&secret)
	for _, h := range f.hosts {
		for _, i := range h.instances {
			i.clear()
			i.id = identity(&secret, h.name, i.model.name)
		}
	}
	f.news.dropped += int64(len(f.news.sendings))
	f.news.reset(f.news.since)
	f.forgetPeers()
}
