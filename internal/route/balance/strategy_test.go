package balance_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

func TestStrategiesAreReadInEverySpelling(t *testing.T) {
	for written, want := range map[string]string{
		"random": "random", "RANDOM": "random", "round-robin": "round_robin", "ROUND_ROBIN": "round_robin",
		"least-connections": "least_connections", "leastConnections": "least_connections", "ip_hash": "ip_hash", "IP-Hash": "ip_hash",
	} {
		var got balance.Strategy
		err := got.UnmarshalText([]byte(written))
		if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", written, got, err)
		}
	}
	err := new(balance.Strategy).UnmarshalText([]byte("coin"))
	want := `unknown strategy "coin" (known: ` + strings.Join(balance.RoundRobin.Names(), ", ") + `)`
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
	var zero balance.Strategy
	if zero != balance.RoundRobin {
		t.Error("the zero value is not the default")
	}
}

func TestStrategiesAreWrittenByName(t *testing.T) {
	// Configurations have these names; a new strategy comes behind them.
	names, known := balance.RoundRobin.Names(), []string{"round_robin", "random", "least_connections", "ip_hash"}
	if len(names) < len(known) || !slices.Equal(names[:len(known)], known) {
		t.Errorf("names %v", names)
	}
	for n, name := range names {
		s := balance.Strategy(n)
		text, err := json.Marshal(s)
		if err != nil || string(text) != `"`+name+`"` || !s.Valid() {
			t.Errorf("%s is written as %s, %v; valid: %v", name, text, err, s.Valid())
		}
		read := balance.Strategy(len(names))
		if err := json.Unmarshal(text, &read); err != nil || read != s {
			t.Errorf("%s is read as %v, %v", text, read, err)
		}
	}
	if next := balance.Strategy(len(names)); next.Valid() || next.String() != fmt.Sprintf("Strategy(%d)", len(names)) {
		t.Errorf("%v is valid: %v", next, next.Valid())
	}
}

func TestStrategyStaysAsItWasWhenAnUnknownNameIsRead(t *testing.T) {
	s := balance.IPHash
	if err := s.UnmarshalText([]byte("coin")); err == nil || s != balance.IPHash {
		t.Errorf("read %v, %v", s, err)
	}
}
