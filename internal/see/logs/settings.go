package logs

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings describe the lines on standard error.
type Settings struct {
	Level  LogLevel  `json:"level"`
	Format LogFormat `json:"format"`
	// Access writes a line for every request. AccessSample is the share of successful
	// requests that get one.
	Access       bool    `json:"access"`
	AccessSample float64 `json:"accessSample" minimum:"0" maximum:"1"`
	// AccessFields are the fields of such a line that are personal and have to be asked for.
	AccessFields []string `json:"accessFields"`
}

// The optional fields of the access log: the user of a request, and the address that it
// came from.
const (
	FieldUser    = "user"
	FieldAddress = "address"
)

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings {
	return Settings{Level: LevelInfo, Format: FormatAuto, Access: true, AccessSample: 1}
}

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if !(s.AccessSample >= 0 && s.AccessSample <= 1) { // this way round it catches NaN too
		report("accessSample", say.New("field.range", "least", "0", "most", "1"))
	}
	for i, field := range s.AccessFields {
		if known := FieldUser + ", " + FieldAddress; field != FieldUser && field != FieldAddress {
			report(fmt.Sprintf("accessFields[%d]", i), say.New("field.unknown_name", "noun", "field", "name", field,
				"known", known))
		}
	}
}

// LogLevel is the configured level of the log.
type LogLevel = schema.Choice[logLevel]

type logLevel struct{}

func (logLevel) Names() []string { return []string{"debug", "info", "warn", "error"} }

// The log levels.
const (
	LevelDebug LogLevel = iota
	LevelInfo
	LevelWarn
	LevelError
)

// LogFormat is the configured shape of log lines.
type LogFormat = schema.Choice[logFormat]

type logFormat struct{}

func (logFormat) Names() []string { return []string{"auto", "text", "json"} }

// The log formats. Auto is text on a terminal and JSON elsewhere.
const (
	FormatAuto LogFormat = iota
	FormatText
	FormatJSON
)
