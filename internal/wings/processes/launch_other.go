//go:build !unix

package processes

import (
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
)

var errUnsupported = errors.New("processes can only be run on Linux, macOS and other kinds of Unix, not on " +
	runtime.GOOS)

func launch(Process, io.Writer, *sync.WaitGroup) (child, error) { return nil, errUnsupported }

func missing(string, string, []string) string { return errUnsupported.Error() }

// supervise does nothing, because nothing is launched here.
func supervise([]string) { os.Exit(1) }
