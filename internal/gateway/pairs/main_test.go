// Package pairs_test tries every door of the gateway together with everything that may happen to
// a request, one small test for each pair: see TestPairs.
package pairs_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/patchbay-ai/patchbay/internal/gateway"
)

// serverWord makes the test binary a model server that listens on the port in its next argument.
const serverWord = "model-server"

func TestMain(m *testing.M) {
	if gateway.RunInstead(os.Args) {
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == serverWord {
		server := http.Server{Addr: "127.0.0.1:" + os.Args[2], Handler: new(engine), ReadHeaderTimeout: time.Minute}
		if err := server.ListenAndServe(); err != nil {
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}
