package backend

import (
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Obstacle is the reason why an instance cannot take a request.
type Obstacle uint8

// The obstacles, after NoObstacle in the order of how long they last: the longest
// first.
const (
	NoObstacle  Obstacle = iota
	Disabled             // by its settings
	NoWeight             // its weight is 0
	Faulty               // a secret that it refers to cannot be used on this gateway
	Unhealthy            // its checks failed, or it is loading a model
	BreakerOpen          // its circuit breaker refuses calls
	AtLimit              // its own rate limit is reached
	NoSlot               // it has as many calls as it may have at a time
	Standby              // it is ready, and so is an instance of a lower tier
	Narrow               // the context window of a ready instance suits the prompt better
)

// Obstacles is how many obstacles there are, NoObstacle included.
const Obstacles = int(Narrow) + 1

var obstacleNames = [Obstacles]string{"none", "disabled", "no_weight", "faulty", "unhealthy", "breaker_open",
	"at_limit", "no_slot", "standby", "context_window"}

// String returns the name.
func (o Obstacle) String() string { return obstacleNames[o] }

// Busy reports whether an obstacle is no sign of a failure: the instance takes a
// request now or soon.
func (o Obstacle) Busy() bool { return o == NoObstacle || o == AtLimit || o == NoSlot }

// Shorter returns the obstacle that is over sooner.
func (o Obstacle) Shorter(other Obstacle) Obstacle {
	if o == NoObstacle || other == NoObstacle {
		return NoObstacle
	}
	return max(o, other)
}

// Barred returns the obstacle that an instance has by its configuration for as long
// as that is in force, or NoObstacle.
func (i *Instance) Barred() Obstacle {
	switch {
	case !i.Settings.Enabled:
		return Disabled
	case i.Share == 0:
		return NoWeight
	case i.Fault.Is():
		return Faulty
	}
	return NoObstacle
}

// Obstacle returns the reason why the instance cannot take a request now. A mark is
// no obstacle (see Health.Marked). Asking changes nothing.
func (i *Instance) Obstacle(now time.Time) Obstacle {
	if barred := i.Barred(); barred != NoObstacle {
		return barred
	}
	switch {
	case i.Health.Out():
		return Unhealthy
	case !i.Breaker.Ready(now):
		return BreakerOpen
	case i.policy.Limit.Enabled && !i.Limiter.Peek(netip.Addr{}, now).Allowed:
		return AtLimit
	case i.full():
		return NoSlot
	}
	return NoObstacle
}

func (i *Instance) full() bool {
	slots := int64(i.Slots())
	return slots > 0 && i.inFlight.Load() >= slots
}

// WhyNot describes an obstacle without telling how the instance is configured.
func (i *Instance) WhyNot(o Obstacle, now time.Time) say.Sentence {
	switch o {
	case Unhealthy:
		if wait := i.overloadedFor(now); wait > 0 && !i.Health.Marked() && !i.Health.Out() {
			return say.New("instance.overloaded", "wait", wait)
		}
		if reason := i.Health.Reason(); reason.Is() {
			return reason
		}
		return say.New("instance.unhealthy_plain")
	case BreakerOpen:
		if hold, held := i.Breaker.HeldOpen(); held {
			return say.New("instance.held", "by", hold.By, "since", hold.Since.UTC().Format(time.RFC3339))
		}
		return say.New("instance.breaker", "wait", i.Breaker.RetryAfter(now))
	}
	return say.New(obstacleCodes[o], "slots", i.Slots(), "tier", i.Settings.Tier)
}

// obstacleCodes are the sentences of obstacles that WhyNot does not say in another way.
var obstacleCodes = [Obstacles]say.Code{
	NoObstacle: "instance.ready", Disabled: "instance.off", NoWeight: "instance.no_weight", Faulty: "instance.faulty",
	AtLimit: "instance.at_limit", NoSlot: "instance.no_slot", Standby: "instance.standby",
	Narrow: "instance.narrow",
}
