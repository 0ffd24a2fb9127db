// Package redisfleet exchanges the news of fleets between gateways that share a Redis. Each
// gateway publishes its news once a second, and subscribes to the news of all. Redis keeps
// nothing of it but, where there is no master key, the secret of the fleet.
//
// A gateway hears itself as well. So it knows that the whole way works. A gateway that does
// not hear its own message begins anew with another connection.
package redisfleet

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
	"github.com/patchbay-ai/patchbay/internal/store/redis"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

const (
	// newsEvery is the interval between news, and helloEvery the interval between messages
	// while there are none.
	newsEvery  = time.Second
	helloEvery = 10 * time.Second
	// goneAfter is the time after which a silent gateway is not counted any more. Its
	// pending work is forgotten earlier, by the fleet.
	goneAfter = 3 * helloEvery
	// maxOthers is how many other gateways are heard.
	maxOthers = 256
	// patience bounds connecting and each command, and deafAfter the time until a gateway
	// hears its own message.
	patience  = time.Second
	deafAfter = 5 * time.Second
	// agreeEvery is how often gateways look for the secret again where they hear messages
	// that were made with another one.
	agreeEvery = 10 * time.Second
)

var (
	errDeaf        = errors.New("redis does not deliver what this gateway publishes")
	errUnconfirmed = errors.New("redis does not confirm the subscription")
)

// Options configure an Exchange.
type Options struct {
	Fleet *fleet.Fleet
	// Secret is the secret of the fleet. Nobody else has it.
	Secret fleet.Secret
	// Gateway is the id of this gateway.
	Gateway string
	// Address is the address of Redis, and Prefix begins the names of all keys and
	// channels there.
	Address, Prefix string
	// Keys are the master keys. The secret of the fleet is derived from the current one;
	// nil Keys mean that it is kept in Redis.
	Keys *seal.Keys
	// IsWanted reports whether there is something to exchange.
	IsWanted func() bool
	Log      *slog.Logger
}

// Exchange is this gateway's side of the exchange between fleets.
type Exchange struct {
	options Options
	channel string

	isOn                               atomic.Bool
	sent, received, foreign, malformed atomic.Int64
	state                              condition.Condition

	mu     sync.Mutex
	secret fleet.Secret
	codec  codec
	others map[string]time.Time // when each other gateway was heard last
	// said is the time of this gateway's last message, and unheard the time since which it
	// has not heard itself; zero means that it has.
	said, unheard time.Time
	// hears is the time since which this gateway has heard all without a gap, zero while it
	// does not.
	hears     time.Time
	isNew     bool // a gateway was heard for the first time
	isDoubted bool // a message was heard that was made with another secret
	agreed    time.Time
	disagreed int // how often in a row the secret was found to be right, and others had another
}

// New returns an exchange that does nothing before Run.
func New(options Options) *Exchange {
	x := &Exchange{options: options, channel: options.Prefix + ":{fleet}:news", others: map[string]time.Time{}}
	x.secret, x.codec = options.Secret, newCodec(&options.Secret)
	return x
}

// Run exchanges until the context ends, for as long as there is something to exchange.
func (x *Exchange) Run(ctx context.Context) {
	tick := time.NewTicker(newsEvery)
	defer tick.Stop()
	for {
		isWanted := x.options.IsWanted()
		x.isOn.Store(isWanted)
		if isWanted {
			if err := x.share(ctx, tick.C); err != nil && ctx.Err() == nil {
				x.note(err)
			}
			x.leave()
		} else {
			x.state.Recover() // nothing is missed
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// errPanicked replaces a panic while this gateway read a message of another one.
var errPanicked = errors.New("a message of another gateway could not be handled")

// share exchanges over one connection, until it is lost or there is nothing to exchange any
// more.
func (x *Exchange) share(ctx context.Context, tick <-chan time.Time) error {
	opening, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := redis.Connect(opening, x.options.Address)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := x.agree(ctx, client); err != nil {
		return err
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	lost, isSubscribed := make(chan error, 1), make(chan struct{}, 1)
	hearing, stop := context.WithCancel(ctx)
	defer stop()
	hearing = rueidis.WithOnSubscriptionHook(hearing, func(rueidis.PubSubSubscription) {
		select {
		case isSubscribed <- struct{}{}:
		default:
		}
	})
	listening.Go(func() {
		err := errPanicked
		defer func() { lost <- err }()
		logs.Contain(x.options.Log, "hearing of other gateways", func() {
			err = client.Receive(hearing, client.B().Subscribe().Channel(x.channel).Build(),
				func(m rueidis.PubSubMessage) { x.hear(m.Message, time.Now()) })
		})
	})
	confirming := time.NewTimer(patience)
	defer confirming.Stop()
	select {
	case <-isSubscribed:
	case err := <-lost:
		return err
	case <-confirming.C:
		return errUnconfirmed
	}
	for x.options.IsWanted() {
		if err := x.tell(ctx, client, time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-lost:
			return err
		case <-tick:
		}
	}
	return nil
}

// tell publishes the news. Where messages of others could not be read, it looks for the
// secret before.
func (x *Exchange) tell(ctx context.Context, client rueidis.Client, now time.Time) error {
	if x.isToAgree(now) {
		if err := x.agree(ctx, client); err != nil {
			return err
		}
	}
	envelope, err := x.write(x.options.Fleet.Export(now), now)
	if err != nil || envelope == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// In a cluster any server would do. The server of the channel's name is the same one each
	// time.
	publish := client.B().Arbitrary("PUBLISH").Keys(x.channel).Args(string(envelope)).Build()
	if err := client.Do(ctx, publish).Error(); err != nil {
		return err
	}
	x.sent.Add(1)
	return nil
}

// write returns the bytes to publish; nil means nothing.
func (x *Exchange) write(message []byte, now time.Time) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.others, func(_ string, heard time.Time) bool { return now.Sub(heard) >= goneAfter })
	if !x.unheard.IsZero() && now.Sub(x.unheard) >= deafAfter {
		return nil, errDeaf
	}
	if message == nil && !x.isNew && now.Sub(x.said) < helloEvery {
		return nil, nil
	}
	if x.said, x.isNew = now, false; x.unheard.IsZero() {
		x.unheard = now
	}
	return x.codec.wrap(x.options.Gateway, message), nil
}

// hear takes a message that a gateway has published.
func (x *Exchange) hear(envelope string, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	gateway, message, err := x.codec.open(envelope)
	if err != nil {
		if errors.Is(err, errSecret) {
			x.foreign.Add(1)
			x.isDoubted = true
		} else {
			x.malformed.Add(1)
		}
		return
	}
	if gateway == x.options.Gateway {
		x.unheard = time.Time{}
		if x.hears.IsZero() {
			x.hears = now
		}
		x.note(nil)
		return
	}
	_, isKnown := x.others[gateway]
	if !isKnown && len(x.others) >= maxOthers {
		x.malformed.Add(1)
		return
	}
	if len(message) > 0 && x.options.Fleet.Import(gateway, message, now) != nil {
		x.malformed.Add(1)
		return
	}
	x.received.Add(1)
	x.others[gateway] = now
	x.isNew = x.isNew || !isKnown
}

// note notes whether the fleets can be exchanged.
func (x *Exchange) note(err error) {
	x.state.Note(x.options.Log, err, "what gateways know about the fleet cannot be exchanged; this gateway goes by "+
		"what it knows itself", "gateways exchange again what they know about the fleet")
}

// leave forgets the others when they are not heard any more.
func (x *Exchange) leave() {
	x.mu.Lock()
	clear(x.others)
	x.said, x.unheard, x.hears, x.isNew = time.Time{}, time.Time{}, time.Time{}, false
	x.mu.Unlock()
	x.options.Fleet.Alone()
}

// Hears returns the time since which this gateway hears the others without a gap, zero
// where it does not, and which gateways it has heard of lately.
func (x *Exchange) Hears() (since time.Time, others []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.hears, slices.Collect(maps.Keys(x.others))
}

// Stats returns the counts. A nil Exchange has none.
func (x *Exchange) Stats() fleet.ExchangeStats {
	if x == nil {
		return fleet.ExchangeStats{}
	}
	x.mu.Lock()
	others := len(x.others)
	x.mu.Unlock()
	return fleet.ExchangeStats{
		IsOn: x.isOn.Load(), Others: others,
		Sent: x.sent.Load(), Received: x.received.Load(), Foreign: x.foreign.Load(), Malformed: x.malformed.Load(),
		Dropped: x.options.Fleet.Dropped(), Failure: x.state.Failure(), Failures: x.state.Failures(),
	}
}
