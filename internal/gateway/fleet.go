package gateway

import (
	"crypto/rand"
	"time"

	"github.com/patchbay-ai/patchbay/internal/fleet"
)

// newFleet returns a fleet without instances, whose secret nobody knows.
func newFleet(gateway string) *fleet.Fleet {
	options := fleet.Options{Gateway: gateway}
	_, _ = rand.Read(options.Secret[:]) // it never fails
	return fleet.New(options, time.Now())
}
