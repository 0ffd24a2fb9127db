package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
)

// Panic is a panic that was caught, with the stack of where it happened.
type Panic struct {
	value any
	stack []byte
}

// Error returns the value of the panic as a text.
func (p *Panic) Error() string { return fmt.Sprint(p.value) }

// Unwrap returns the value of the panic if it was an error, otherwise nil.
func (p *Panic) Unwrap() error {
	if p == nil {
		return nil
	}
	err, _ := p.value.(error)
	return err
}

// Caught turns the result of recover in a deferred function into a Panic, nil into nil. A
// Panic that was caught and raised before stays as it is.
func Caught(recovered any) *Panic {
	if recovered == nil {
		return nil
	}
	if p, isCaught := recovered.(*Panic); isCaught {
		return p
	}
	return &Panic{recovered, debug.Stack()}
}

// Try runs work and returns the panic that ended it, nil if there was none.
func Try(work func()) (caught *Panic) {
	defer func() { caught = Caught(recover()) }()
	work()
	return nil
}

// Raise panics again with a caught panic, on the goroutine of an owner that can handle it.
// It does nothing for nil.
func (p *Panic) Raise() {
	if p != nil {
		panic(p)
	}
}

// Report writes a panic that ends here to a log, with its stack and the work that panicked,
// and counts it. It writes nothing for nil, nor for http.ErrAbortHandler, which is no
// fault.
func (p *Panic) Report(log *slog.Logger, doing string, attrs ...slog.Attr) {
	if p == nil || errors.Is(p, http.ErrAbortHandler) {
		return
	}
	if h, ok := log.Handler().(*handler); ok {
		h.out.panics.Add(1)
	}
	log.LogAttrs(context.Background(), slog.LevelError, doing+" panicked",
		append(attrs, slog.Any("panic", p.value), slog.String("stack", string(p.stack)))...)
}

// Contain runs work, and reports whether it ended without a panic. Every goroutine that
// handles bytes of clients or backends runs within it: a fault then costs one request or
// one round, and not the process. Deferred functions of work give back all that it holds.
func Contain(log *slog.Logger, doing string, work func()) bool {
	caught := Try(work)
	caught.Report(log, doing)
	return caught == nil
}

// restartPause is how long a loop rests after a panic.
const restartPause = time.Second

// Persist runs a loop until ctx ends. One that panics begins anew after a second.
func Persist(ctx context.Context, log *slog.Logger, doing string, loop func(context.Context)) {
	for !Contain(log, doing, func() { loop(ctx) }) {
		if waiting.Pause(ctx, restartPause) != nil {
			return
		}
	}
}

// Panics returns a function that counts the panics that loggers of New have reported: none of any
// other logger.
func Panics(log *slog.Logger) func() int64 {
	if h, ok := log.Handler().(*handler); ok {
		return h.out.panics.Load
	}
	return func() int64 { return 0 }
}
