package registry

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Redis is the list of gateways that share no configuration, but Redis. It is kept with
// their shared counts: see tally.
type Redis struct{ pool *tally.Pool }

// NewRedis returns the list of the gateways of a pool.
func NewRedis(pool *tally.Pool) *Redis { return &Redis{pool} }

// Announce stores a member and returns all.
func (r *Redis) Announce(ctx context.Context, self cluster.Member) ([]cluster.Seen, error) {
	record, err := json.Marshal(self)
	if err != nil {
		return nil, err
	}
	listed, err := r.pool.Announce(ctx, string(record))
	if err != nil {
		return nil, err
	}
	var all []cluster.Seen
	for _, one := range listed {
		all = appendSeen(all, []byte(one.Record), one.Ago)
	}
	return all, nil
}

// Leave does nothing: the pool leaves when it ends.
func (r *Redis) Leave(context.Context, string) error { return nil }

// Close does nothing: the pool owns the connection.
func (r *Redis) Close() {}
