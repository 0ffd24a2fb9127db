//go:build !unix

package processes

import (
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

var errUnsupported = say.Error("process.platform", "system", runtime.GOOS)

func launch(Process, io.Writer, *sync.WaitGroup) (child, error) { return nil, errUnsupported }

func missing(string, string, []string) string { return errUnsupported.Error() }

// supervise does nothing, because nothing is launched here.
func supervise([]string) { os.Exit(1) }
