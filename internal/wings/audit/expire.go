package audit

import (
	"context"
	"fmt"
	"time"
)

// expire removes records that are too old. Each removal is recorded, and the end of the removed
// part is signed, before anything is removed.
func (w *Writer) expire(ctx context.Context, now time.Time) error {
	settings := &w.options.Settings
	spans, err := w.options.Store.Old(ctx, now.Add(-settings.Keep.Std()), int64(settings.MaxBytes))
	if err != nil || len(spans) == 0 {
		return err
	}
	if err := w.explain(ctx, spans, now); err != nil {
		return err
	}
	for _, s := range spans {
		if err := w.options.Store.Remove(ctx, s); err != nil {
			return err
		}
		w.options.Log.Info("old records of the audit were removed", "gateway", s.Gateway, "chain", s.Chain,
			"last", s.Last, "hash", s.Hash)
	}
	return nil
}

// explain records and signs that spans are removed.
func (w *Writer) explain(ctx context.Context, spans []Span, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ready(ctx); err != nil {
		return err
	}
	for _, s := range spans {
		cause := byBytes
		if s.Time < Stamp(now.Add(-w.options.Settings.Keep.Std())) {
			cause = byAge
		}
		c := w.named(s.Gateway)
		object := fmt.Sprintf("gateway %s, chain %d, seq 1 to %d, hash %s", s.Gateway, s.Chain, s.Last, s.Hash)
		c.wait(Intent{Record: w.explained(Expire, object, cause, s.Time, now)})
		if s.Gateway == c.name {
			end := w.signer.sign(Head{Gateway: s.Gateway, Seq: s.Last, Hash: s.Hash, Time: s.Time})
			if err := w.options.Store.AddHead(ctx, end); err != nil {
				return err
			}
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	return w.signAll(ctx, false)
}

// explained returns a record of the gateway that explains why records are missing.
func (w *Writer) explained(action, object, cause, until string, now time.Time) Record {
	r := w.own(action, object, now)
	r.Cause, r.Keep, r.Until = cause, int64(w.options.Settings.Keep.Std()/time.Second), until
	return r
}
