package redisfleet

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// agree gives the fleet the secret that all gateways have: the one that is derived from
// the master key, or else the one in Redis. The first gateway stores its own there. So
// does a gateway that finds it lost in Redis, and the others need not take another one.
func (x *Exchange) agree(ctx context.Context, client rueidis.Client) error {
	x.mu.Lock()
	secret := x.secret
	x.mu.Unlock()
	if x.options.Keys != nil {
		x.options.Keys.Derive("patchbay fleet "+x.options.Prefix, secret[:])
	} else if err := x.keep(ctx, client, &secret); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.agreed = time.Now(); x.secret != secret {
		x.secret, x.codec, x.disagreed = secret, newCodec(&secret), 0
		x.options.Fleet.SetSecret(secret)
	}
	return nil
}

// keep keeps the secret in Redis, or replaces it by the one that is kept there.
func (x *Exchange) keep(ctx context.Context, client rueidis.Client, secret *fleet.Secret) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name := x.options.Prefix + ":{fleet}:secret"
	replies := client.DoMulti(ctx,
		client.B().Set().Key(name).Value(base64.RawURLEncoding.EncodeToString(secret[:])).Nx().Build(),
		client.B().Get().Key(name).Build())
	text, err := replies[1].ToString()
	if err != nil {
		if refused := replies[0].Error(); refused != nil && !rueidis.IsRedisNil(refused) {
			return refused
		}
		return err
	}
	kept, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(kept) != len(secret) {
		return fmt.Errorf("the key %s in Redis has no secret of a fleet: %w", name, errRemove)
	}
	copy(secret[:], kept)
	return nil
}

var errRemove = errors.New("remove it, and the gateways agree on another one")

// isToAgree reports whether to look for the secret again, because there are messages with
// another one. It logs that once if looking does not help.
func (x *Exchange) isToAgree(now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if now.Sub(x.agreed) < agreeEvery {
		return false
	}
	if !x.isDoubted {
		x.disagreed = 0
		return false
	}
	const often = 3
	x.isDoubted = false
	if x.disagreed++; x.disagreed == often {
		x.options.Log.Warn("gateways with another secret tell of their fleets in the same Redis; give all of them "+
			"the same security.master-key, or each group a redis.key-prefix of its own",
			"messages", x.foreign.Load())
	}
	return true
}
