package front

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// requestContext is the context of one request. It ends when the client leaves, with
// context.Canceled, or with the context of all requests, whose cause it has then, or when
// the request has been answered. Once it has ended it stays so: package context panics
// where a context that has ended has no error. Watching it costs little: see AfterFunc.
type requestContext struct {
	context.Context                 // of all requests
	calling         *sync.WaitGroup // what is called when the context ends

	ended atomic.Bool
	mu    sync.Mutex
	done  chan struct{} // made when it is asked for
	// first is what AfterFunc was given, others are those that came beside it.
	first  watch
	others []watch
	last   int // the number of the watch that was added last
}

// watch is a function that is called when the context ends; number 0 is none.
type watch struct {
	number int
	call   func()
}

// Done returns a channel that is closed when the request has ended.
func (r *requestContext) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.ended.Load() {
			close(r.done)
		}
	}
	return r.done
}

// Err returns context.Canceled once the context has ended.
func (r *requestContext) Err() error {
	if r.ended.Load() {
		return context.Canceled
	}
	return nil
}

// AfterFunc calls f in a goroutine of its own when the context ends, unless the
// function that it returns is called before. Package context uses it instead of a
// goroutine that waits for Done.
func (r *requestContext) AfterFunc(f func()) (stop func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended.Load() {
		r.calling.Go(f)
		return func() bool { return false }
	}
	r.last++
	added := watch{r.last, f}
	if r.first.number == 0 {
		r.first = added
	} else {
		r.others = append(r.others, added)
	}
	return func() bool { return r.forget(added.number) }
}

// forget takes back a watch, and tells whether it was still there.
func (r *requestContext) forget(number int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.number == number {
		r.first = watch{}
		return true
	}
	before := len(r.others)
	r.others = slices.DeleteFunc(r.others, func(w watch) bool { return w.number == number })
	return len(r.others) < before
}

// cancel ends the context.
func (r *requestContext) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended.Swap(true) {
		return
	}
	if r.done != nil {
		close(r.done)
	}
	if r.first.call != nil {
		r.calling.Go(r.first.call)
	}
	for _, w := range r.others {
		r.calling.Go(w.call)
	}
	r.first, r.others = watch{}, nil
}
