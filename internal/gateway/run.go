package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Start begins to answer requests, until Stop.
func (g *Gateway) Start() {
	ctx, quit := context.WithCancel(context.Background())
	g.quit = quit
	g.finder.First(ctx)
	g.persist(ctx, "finding models", g.finder.Run)
	g.persist(ctx, "checking backends", g.checker.Run)
	g.persist(ctx, "learning the sizes of models", g.sizes.Run)
	g.persist(ctx, "watching the memory", g.Memory.Run)
	g.Shared.Begin(ctx)
	sharing, endSharing := context.WithCancel(context.Background())
	g.endSharing = endSharing
	g.sharing.Go(func() { logs.Persist(sharing, g.log, "sharing with other gateways", g.Shared.Run) })
	g.persist(ctx, "exchanging what is known of the fleet", g.Exchange.Run)
	g.persist(ctx, "keeping models in memory", g.Residency.Run)
	g.persist(ctx, "announcing the gateway", g.Cluster.Run)
	g.persist(ctx, "following the configuration", g.Control.Follow)
	g.persist(ctx, "recording calls", g.Recorder.Run)
	g.persist(ctx, "sampling what is counted", g.feed.Run)
	g.persist(ctx, "keeping the history", g.history.Run)
	if g.Sessions != nil {
		g.persist(ctx, "reading the sessions of browsers", g.Sessions.Run)
	}
	for _, w := range g.wings {
		if w.Run != nil {
			g.persist(ctx, w.Doing, w.Run)
		}
	}
	if g.pusher != nil {
		g.persist(ctx, "sending metrics", g.pusher.Run)
	}
	if g.certificates != nil {
		g.persist(ctx, "reading certificates", g.certificates.Run)
	}
	g.patience.IsOver.Store(true)
	for _, port := range g.Ports {
		port.start(g.log)
		g.serving.Go(func() {
			err := port.serve()
			g.stopped.Do(func() {
				g.failure = err
				close(g.served)
			})
		})
	}
}

// persist runs a loop in the background until ctx ends, also after a panic of it.
func (g *Gateway) persist(ctx context.Context, doing string, loop func(context.Context)) {
	g.background.Go(func() { logs.Persist(ctx, g.log, doing, loop) })
}

// Done returns a channel that is closed when the gateway no longer serves; Err
// then says why.
func (g *Gateway) Done() <-chan struct{} { return g.served }

// Err returns why the listener failed, once Done is closed.
func (g *Gateway) Err() error { return g.failure }

// Address returns where the gateway listens, the first address if there are several.
func (g *Gateway) Address() string { return g.Ports[0].Listener.Addr().String() }

// ManagementAddress returns the first address of management.
func (g *Gateway) ManagementAddress() string { return g.ManagementAddresses()[0] }

// ManagementAddresses returns the addresses of management.
func (g *Gateway) ManagementAddresses() (all []string) {
	for _, port := range g.Ports {
		if port.serves == everything || port.serves == onlyManagement {
			all = append(all, port.Listener.Addr().String())
		}
	}
	return all
}

func (g *Gateway) closeListeners() {
	for _, port := range g.Ports {
		_ = port.Listener.Close()
	}
}

// Stop serves on for the delay of the configuration, waits for the running requests, then
// aborts them, and closes everything. The end of ctx ends both waits. The listener stays
// open until the requests that ran after the delay have ended: until then probes see that
// the gateway is not ready.
func (g *Gateway) Stop(ctx context.Context) {
	g.close.Do(func() {
		g.Actuator.Drain()
		g.Cluster.Announce(ctx) // the others show it at once
		g.delay(ctx)
		for _, w := range g.wings {
			w.Halt()
		}
		g.Recorder.EndStreams()
		g.feed.Close()
		grace, cancel := context.WithTimeout(ctx, g.Document.Server.ShutdownGrace.Std())
		defer cancel()
		if g.shell.Drain(grace, g.closeListeners) != nil {
			g.abort(web.ErrStopping)
		}
		// The remaining requests have their answer or their error; this is the time to
		// write it.
		last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancelLast()
		g.closeListeners()
		var ports sync.WaitGroup
		for _, port := range g.Ports {
			ports.Go(func() { port.shutdown(last) })
		}
		ports.Wait()
		g.serving.Wait()
		g.abort(web.ErrStopping)
		g.quit()
		g.background.Wait()
		for _, w := range slices.Backward(g.wings) {
			w.Close()
		}
		if g.traces != nil { // the last trace was sent
			g.traces.Close()
		}
		g.Transport.Close()
		g.closeBook()
		g.closeLedger()
		g.endSharing() // both have sent the others their last counts
		g.sharing.Wait()
		if err := g.Store.Close(); err != nil {
			g.log.Error("closing the store", "error", err)
		}
	})
}

// delay waits for as long as others may need to see that the gateway is not ready.
func (g *Gateway) delay(ctx context.Context) {
	over := time.NewTimer(g.Document.Server.ShutdownDelay.Std())
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}
