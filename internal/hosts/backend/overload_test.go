package backend

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
)

func TestAnOverloadedInstanceIsAvoidedForAWhile(t *testing.T) {
	i := makeInstance(t, "ollama", "m", "http://h", nil, nil)
	now := time.Now()
	if i.Avoided(now) {
		t.Fatal("a new instance is avoided")
	}
	i.Overloaded(now.Add(time.Second))
	if !i.Avoided(now.Add(999*time.Millisecond)) || i.Avoided(now.Add(time.Second)) {
		t.Error("it is not avoided for the second that it asked for")
	}
	if i.Obstacle(now) != NoObstacle || i.Breaker.Snapshot().State != breaker.Closed {
		t.Error("having too much to do is an obstacle")
	}
}
