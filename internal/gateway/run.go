package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/web"
)

// Start begins to answer requests, until Stop.
func (g *Gateway) Start() {
	ctx, quit := context.WithCancel(context.Background())
	g.quit = quit
	g.finder.First(ctx)
	g.background.Go(func() { g.finder.Run(ctx) })
	g.background.Go(func() { g.checker.Run(ctx) })
	g.background.Go(func() { g.Memory.Run(ctx) })
	g.Shared.Begin(ctx)
	sharing, endSharing := context.WithCancel(context.Background())
	g.endSharing = endSharing
	g.sharing.Go(func() { g.Shared.Run(sharing) })
	g.background.Go(func() { g.Exchange.Run(ctx) })
	g.background.Go(func() { g.Residency.Run(ctx) })
	g.background.Go(func() { g.Cluster.Run(ctx) })
	g.background.Go(func() { g.Control.Follow(ctx) })
	g.background.Go(func() { g.Recorder.Run(ctx) })
	if g.callFile != nil {
		g.background.Go(func() { g.callFile.Run(ctx) })
	}
	g.background.Go(func() { g.feed.Run(ctx) })
	if g.batches.engine != nil {
		g.background.Go(func() { g.batches.engine.Run(ctx) })
	}
	if g.pusher != nil {
		g.background.Go(func() { g.pusher.Run(ctx) })
	}
	if g.certificates != nil {
		g.background.Go(func() { g.certificates.Run(ctx) })
	}
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

// Done returns a channel that is closed when the gateway no longer serves; Err
// then says why.
func (g *Gateway) Done() <-chan struct{} { return g.served }

// Err returns why the listener failed, once Done is closed.
func (g *Gateway) Err() error { return g.failure }

// Address returns where the gateway listens, the first address if there are several.
func (g *Gateway) Address() string { return g.Ports[0].Listener.Addr().String() }

// ManagementAddress returns where management is served, the first address if there are
// several.
func (g *Gateway) ManagementAddress() string {
	for _, port := range g.Ports {
		if port.serves == everything || port.serves == onlyManagement {
			return port.Listener.Addr().String()
		}
	}
	return ""
}

func (g *Gateway) closeListeners() {
	for _, port := range g.Ports {
		_ = port.Listener.Close()
	}
}

// Stop serves on for the delay of the configuration, waits for the running requests, then
// aborts them, and closes everything. The end of ctx ends both waits. The listener stays
// open until the requests that ran after the delay have ended, so that probes see that the
// gateway is not ready.
func (g *Gateway) Stop(ctx context.Context) {
	g.close.Do(func() {
		g.Actuator.Drain()
		g.Cluster.Announce(ctx) // the others show it at once
		g.delay(ctx)
		if g.batches.engine != nil {
			g.batches.engine.Halt()
		}
		g.Recorder.EndStreams()
		g.feed.Close()
		g.sockets.Stop()
		grace, cancel := context.WithTimeout(ctx, g.Document.Server.ShutdownGrace.Std())
		defer cancel()
		if g.shell.Drain(grace, g.closeListeners) != nil {
			g.abort(web.ErrStopping)
		}
		// What is left has its answer or its error; this is the time to write it.
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
		g.callFile.Close()
		g.processes.Close()
		g.closeTelemetry(last)
		g.Transport.Close()
		g.closeBook()
		g.closeLedger()
		g.endSharing() // both have told the others what they counted at last
		g.sharing.Wait()
		g.answers.close()
		g.closeCache()
		g.batches.close()
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
