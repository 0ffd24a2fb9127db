package audit

import (
	"context"
	"time"
)

// sign signs the last record of a chain, and writes the head to the log.
func (w *Writer) sign(ctx context.Context, c *chain) error {
	if c.last.Seq == 0 {
		return nil
	}
	h := w.signer.sign(Head{Gateway: c.name, Seq: c.last.Seq, Hash: c.last.Hash, Time: Stamp(time.Now())})
	if err := w.options.Store.AddHead(ctx, h); err != nil {
		return err
	}
	c.signed, c.isDue = h, false
	w.options.Log.Info("audit head", "gateway", h.Gateway, "seq", h.Seq, "hash", h.Hash, "time", h.Time,
		"signature", h.Signature)
	return w.settle(ctx, c)
}

// signAll signs the last records of all chains that have new ones, or of all chains.
func (w *Writer) signAll(ctx context.Context, all bool) error {
	for _, c := range w.chains {
		if all || c.isOpen && c.isDue {
			if err := w.sign(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rotate makes a new key that signs from now on, and returns its public half. The key before
// signs a last head of each chain.
func (w *Writer) Rotate(ctx context.Context) (PublicKey, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.ready(ctx)
	if err == nil {
		err = w.signAll(ctx, true)
	}
	if err != nil {
		return PublicKey{}, err
	}
	made := makeSigner(w.options.Gateway, w.signer.secret, time.Now())
	if err := made.save(w.options.Dir, w.options.Master); err != nil {
		return PublicKey{}, err
	}
	w.signer = made
	for _, c := range w.chains {
		c.isDue = c.last.Seq > 0
	}
	_, err = w.publish(ctx)
	return made.public, err
}
