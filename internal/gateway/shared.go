package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/store/tally/redistally"
)

// idFile is the file in the data directory that has the id of the gateway.
const idFile = "gateway-id"

// IDOf returns the id of the gateway that has this data directory. It stays the same
// after a restart: the others must not take the gateway for a new one.
func IDOf(data *durable.Dir) (string, error) {
	const longest = 64
	text, err := data.Read(idFile)
	if err == nil {
		if id := strings.TrimSpace(string(text)); id != "" && len(id) <= longest {
			return id, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", idFile, err)
	}
	id := strings.ToLower(rand.Text())
	return id, data.Write(idFile, []byte(id+"\n"))
}

// newShared returns this gateway's side of the counts that gateways share in Redis. It
// connects when there is something to share.
func (g *Gateway) newShared() *tally.Pool {
	doc := g.Document
	return tally.NewPool(tally.Options{
		Open: func(ctx context.Context) (tally.Store, error) {
			store, err := redistally.Open(ctx, doc.Redis.URL, doc.Redis.KeyPrefix, g.ID)
			if err != nil {
				return nil, err
			}
			return store, nil
		},
		Timeout:    doc.Quota.Distributed.Timeout.Std(),
		Members:    g.Cluster.Present,
		SharesMore: g.sharesCounts,
		Log:        g.log,
	})
}

// sharedLimits returns where gateways share the limits of keys and tenants, nil where each has
// limits of its own.
func (g *Gateway) sharedLimits() *tally.Pool {
	if g.Document.Security.SharedLimits {
		return g.Shared
	}
	return nil
}
