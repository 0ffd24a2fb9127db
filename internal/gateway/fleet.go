package gateway

import (
	"crypto/rand"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet/redisfleet"
)

// openFleet makes a fleet without instances, with a random secret, and the exchange with
// the fleets of other gateways.
func (g *Gateway) openFleet() error {
	doc := g.Document
	options := fleet.Options{Gateway: g.ID}
	_, _ = rand.Read(options.Secret[:]) // it never fails
	g.Fleet = fleet.New(options, time.Now())
	keys, err := doc.Security.MasterKeys()
	if err != nil {
		return err
	}
	g.Exchange = redisfleet.New(redisfleet.Options{
		Fleet: g.Fleet, Secret: options.Secret, Gateway: g.ID,
		Address: doc.Redis.URL, Prefix: doc.Redis.KeyPrefix, Keys: keys,
		IsWanted: func() bool { return g.Fleet.Size() > 0 && (doc.NamesRedis || g.sharesInRedis()) },
		Log:      g.log,
	})
	return nil
}
