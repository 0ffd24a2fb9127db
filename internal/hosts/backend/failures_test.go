package backend

import (
	"testing"
	"time"
)

func TestFailedRequestsAreRememberedWithinBounds(t *testing.T) {
	t.Parallel()
	i := makeInstance(t, "ollama", "m", "http://h", nil, nil)
	now := time.Now()
	if i.FailedBefore(1, now) {
		t.Error("the first failure is known")
	}
	if !i.FailedBefore(1, now.Add(failureMemory-1)) {
		t.Error("the second one is not")
	}
	if i.FailedBefore(1, now.Add(failureMemory)) {
		t.Error("it is remembered for ever")
	}
	for digest := range uint64(10 * failuresKept) {
		i.FailedBefore(100+digest, now)
	}
	if len(i.failures.recent) != failuresKept {
		t.Errorf("%d requests are remembered", len(i.failures.recent))
	}
	if newest := uint64(100 + 10*failuresKept - 1); !i.FailedBefore(newest, now) || i.FailedBefore(100, now) {
		t.Error("it is not the newest ones that are remembered")
	}
}
