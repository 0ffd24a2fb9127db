package condition_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

func TestSinceIsTheFirstFailureAndTheReasonTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c condition.Condition
		if c.Failure() != nil || c.Recover() {
			t.Error("it is not well before anything happened")
		}
		began := time.Now()
		if !c.Fail(say.Plain("refused")) {
			t.Error("the first failure is not the first")
		}
		<-time.After(time.Minute)
		if c.Fail(say.Plain("timeout")) {
			t.Error("the second failure is the first")
		}
		if f := c.Failure(); f == nil || f.Reason != "timeout" || !f.Since.Equal(began) || c.Failures() != 2 {
			t.Errorf("%+v after %d failures", f, c.Failures())
		}
		if !c.Recover() || c.Recover() || c.Failure() != nil || c.Failures() != 2 {
			t.Errorf("%+v after a success", c.Failure())
		}
	})
}
