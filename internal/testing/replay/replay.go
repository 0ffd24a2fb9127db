// Package replay sends the workloads of fleettest to a gateway over HTTP, at a time
// scale, and measures when the first content of each answer comes. It starts simulated
// engines for the gateway, and asks them for their totals.
package replay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
)

// Run is a workload that is sent to a gateway.
type Run struct {
	URL      string // of the gateway
	Requests []*fleettest.Request
	Block    int     // tokens of a block of the requests
	Until    float64 // only requests that come before; 0 is all
	// Scale is how many real seconds a second of the workload is.
	Scale float64
	// Salt tells runs apart whose engines stay: the same requests have other words in each.
	Salt uint64
	// AtOnce is how many requests are under way at most; 0 is any number.
	AtOnce int
	// Within is after how many seconds of the workload the run ends, 0 for never. What has no
	// first token then has failed, and counts with the time that it has waited.
	Within float64
}

// running is the state of a run.
type running struct {
	*Run
	client *http.Client
	sent   sync.WaitGroup
	places chan struct{} // taken by requests under way; nil if their number is not limited

	mu     sync.Mutex
	number int
	began  time.Time
	times  []float64
	later  []float64 // of requests that came when policies have learned
	failed int
	// unanswered counts those without a first token at the end of the run.
	unanswered int
	err        error // of the first that failed
}

// Do sends all requests. It returns the times to their first content, in seconds of the
// workload, and the error of the first request that failed.
func (run *Run) Do(ctx context.Context) (fleettest.Figures, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}
	defer transport.CloseIdleConnections()
	r := &running{Run: run, client: &http.Client{Transport: transport}}
	if run.AtOnce > 0 {
		r.places = make(chan struct{}, run.AtOnce)
	}
	if run.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, run.real(run.Within))
		defer cancel()
	}
	r.began = time.Now()
	for _, request := range run.Requests {
		if run.Until > 0 && request.At >= run.Until {
			continue
		}
		if !sleep(ctx, time.Until(r.began.Add(run.real(request.At)))) {
			break
		}
		r.sent.Go(func() { r.talk(ctx, request) })
	}
	r.sent.Wait()
	figures := fleettest.Summarize(r.times, r.failed)
	figures.Failed += r.unanswered
	if figures.Learned = math.NaN(); len(r.later) > 0 {
		figures.Learned = fleettest.Summarize(r.later, 0).Mean
	}
	return figures, r.err
}

// real returns how long seconds of the workload are.
func (run *Run) real(seconds float64) time.Duration {
	return time.Duration(seconds * run.Scale * float64(time.Second))
}

// sleep returns false if the context ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil // both may have happened
	case <-ctx.Done():
		return false
	}
}

// talk sends a request and its successors.
func (r *running) talk(ctx context.Context, request *fleettest.Request) {
	for ; request != nil; request = request.Next {
		sent := time.Now()
		first, err := r.ask(ctx, request)
		r.note(ctx, sent, first, err)
		if !sleep(ctx, r.real(request.Pause)) {
			return
		}
	}
}

// note takes the result of a request: how long its first content took, 0 where none came.
func (r *running) note(ctx context.Context, sent time.Time, first time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		isOver := errors.Is(ctx.Err(), context.DeadlineExceeded)
		switch {
		case isOver && first == 0:
			first = time.Since(sent)
			r.unanswered++
		case !isOver:
			if r.failed++; r.failed == 1 {
				r.err = err
			}
			return
		}
	}
	took := first.Seconds() / r.Scale
	r.times = append(r.times, took)
	if sent.Sub(r.began) >= r.real(fleettest.Learning) {
		r.later = append(r.later, took)
	}
}

// ask sends a request, reads its whole answer and returns when the first content came.
func (r *running) ask(ctx context.Context, request *fleettest.Request) (first time.Duration, err error) {
	if r.places != nil {
		select {
		case r.places <- struct{}{}:
			defer func() { <-r.places }()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	r.mu.Lock()
	r.number++
	number := r.number
	r.mu.Unlock()
	sent := body(request, r.Block, number, r.Salt)
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/chat/completions", bytes.NewReader(sent))
	if err != nil {
		return 0, err
	}
	post.Header.Set("Content-Type", "application/json")
	began := time.Now()
	response, err := r.client.Do(post)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return 0, fmt.Errorf("status %d: %s", response.StatusCode, said)
	}
	lines := bufio.NewReaderSize(response.Body, 16<<10)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return first, fmt.Errorf("an answer ends in the middle: %w", err)
		case first == 0 && hasContent(line):
			first = time.Since(began)
		case bytes.HasPrefix(line, []byte("data: [DONE]")):
			if first == 0 {
				return 0, errors.New("an answer has no content")
			}
			_, _ = io.Copy(io.Discard, response.Body) // nothing follows but the end
			return first, nil
		}
	}
}

// hasContent reports whether an event has text, not only a role.
func hasContent(line []byte) bool {
	_, content, found := bytes.Cut(line, []byte(`"content":"`))
	return found && content[0] != '"'
}
