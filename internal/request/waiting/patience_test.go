package waiting

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Stores that do not answer share one bound. One that answers slowly spends nothing of it.
func TestOnlySilentStoresSpendThePatienceOfAStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := Patience{Total: 3 * time.Second}
		read := func(after time.Duration) (took time.Duration, err error) {
			began := time.Now()
			p.Wait(t.Context(), func(ctx context.Context) {
				select {
				case <-ctx.Done():
					err = ctx.Err()
				case <-time.After(after):
				}
			})
			return time.Since(began), err
		}
		for range 10 {
			if took, err := read(2 * time.Second); took != 2*time.Second || err != nil {
				t.Errorf("a slow store: took %v, %v", took, err)
			}
		}
		for _, want := range []time.Duration{3 * time.Second, 0} {
			if took, err := read(time.Hour); took != want || err == nil {
				t.Errorf("a silent store: took %v, %v; want %v", took, err, want)
			}
		}
		p.IsOver.Store(true)
		if took, err := read(time.Minute); took != time.Minute || err != nil {
			t.Errorf("after the start: took %v, %v", took, err)
		}
	})
}
