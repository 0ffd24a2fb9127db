package logs

import (
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
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
	if _, err := oneOf("log level", string(s.Level), s.Level.Names()); err != nil {
		report("level", say.From(err))
	}
	if _, err := oneOf("log format", string(s.Format), s.Format.Names()); err != nil {
		report("format", say.From(err))
	}
	if !(s.AccessSample >= 0 && s.AccessSample <= 1) { // this way round it catches NaN too
		report("accessSample", say.New("field.range", "least", "0", "most", "1"))
	}
	for i, field := range s.AccessFields {
		if _, err := oneOf("field", field, []string{FieldUser, FieldAddress}); err != nil {
			report(fmt.Sprintf("accessFields[%d]", i), say.From(err))
		}
	}
}

// LogLevel is the configured level of the log.
type LogLevel string

// The log levels.
const (
	LevelDebug LogLevel = "debug"
	LevelInfo  LogLevel = "info"
	LevelWarn  LogLevel = "warn"
	LevelError LogLevel = "error"
)

// Names returns the name of every level.
func (LogLevel) Names() []string {
	return []string{string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError)}
}

// UnmarshalText reads a level in any case.
func (l *LogLevel) UnmarshalText(text []byte) error {
	name, err := oneOf("log level", string(text), l.Names())
	if err != nil {
		return err
	}
	*l = LogLevel(name)
	return nil
}

// LogFormat is the configured shape of log lines.
type LogFormat string

// The log formats. Auto is text on a terminal and JSON elsewhere.
const (
	FormatAuto LogFormat = "auto"
	FormatText LogFormat = "text"
	FormatJSON LogFormat = "json"
)

// Names returns the name of every format.
func (LogFormat) Names() []string {
	return []string{string(FormatAuto), string(FormatText), string(FormatJSON)}
}

// UnmarshalText reads a format in any case.
func (f *LogFormat) UnmarshalText(text []byte) error {
	name, err := oneOf("log format", string(text), f.Names())
	if err != nil {
		return err
	}
	*f = LogFormat(name)
	return nil
}

func oneOf(noun, written string, names []string) (string, error) {
	for _, name := range names {
		if strings.EqualFold(written, name) {
			return name, nil
		}
	}
	return "", say.Error("field.unknown_name", "noun", noun, "name", written, "known", strings.Join(names, ", "))
}
