package config

import (
	"fmt"
	"strings"
)

// LogLevel is how much is logged.
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

// LogFormat is the shape of log lines.
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
	return "", fmt.Errorf("unknown %s %q (known: %s)", noun, written, strings.Join(names, ", "))
}
