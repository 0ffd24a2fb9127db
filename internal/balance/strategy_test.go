package balance_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/balance"
)

func TestStrategiesAreReadInEverySpelling(t *testing.T) {
	for written, want := range map[string]string{
		"random": "random", "RANDOM": "random", "round-robin": "round_robin", "ROUND_ROBIN": "round_robin",
		"least-connections": "least_connections", "leastConnections": "least_connections", "ip_hash": "ip_hash", "IP-Hash": "ip_hash",
	} {
		got, err := balance.ParseStrategy(written)
		if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", written, got, err)
		}
	}
	_, err := balance.ParseStrategy("coin")
	const want = `unknown strategy "coin" (known: round_robin, random, least_connections, ip_hash)`
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
	var zero balance.Strategy
	if zero != balance.RoundRobin {
		t.Error("the zero value is not the default")
	}
}
