package gateway

import (
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

// configFile is the result of the last reading of the configuration file.
type configFile struct {
	condition.Condition

	lastRead atomic.Int64 // in nanoseconds since 1970; 0 means that there is no file
}

// begin notes that there is a file, and that it was read.
func (f *configFile) begin() { f.lastRead.Store(time.Now().UnixNano()) }

// read notes another reading of the file. The reason says why the file was refused; empty
// means that it was taken.
func (f *configFile) read(reason string) {
	if f.lastRead.Load() == 0 {
		return // a reload without a file reads only variables and flags
	}
	f.begin()
	if reason == "" {
		f.Recover()
	} else {
		f.Fail(say.Plain(reason))
	}
}

// sources returns the state of the sources of the configuration, for health and metrics.
func (g *Gateway) sources() actuator.ConfigSources {
	var sources actuator.ConfigSources
	if database := g.Control.Following(); database != nil {
		sources.Database = &actuator.ConfigSource{Failure: database.Failure(), Failures: database.Failures()}
	}
	if read := g.file.lastRead.Load(); read != 0 {
		sources.File = &actuator.ConfigSource{Failure: g.file.Failure(), Failures: g.file.Failures(),
			LastRead: time.Unix(0, read)}
	}
	return sources
}
