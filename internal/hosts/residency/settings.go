package residency

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings say whether the models of a service type are woken for requests, and when they
// are put to sleep.
type Settings struct {
	Enabled bool `json:"enabled" doc:"Whether requests wait for a model that is not in memory, and go where theirs is."`
	// WakeTimeout is how long a request waits for its model; 0 means 5 minutes.
	WakeTimeout schema.Duration `json:"wakeTimeout" minimum:"0"`
	// HoldNotice is how long a stream waits for its model before its client gets a notice,
	// with the status 200; 0 means never.
	HoldNotice schema.Duration `json:"holdNotice" minimum:"0"`
	// SleepAfter is the idle time after which a model is put to sleep; 0 means never.
	SleepAfter schema.Duration `json:"sleepAfter" minimum:"0"`
	// Room is how many models a host has in memory at a time; 0 means the number that
	// the host reports.
	Room int `json:"room" minimum:"0" maximum:"1000"`
}

// Docs describes the members that a tag has no room for.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"wakeTimeout": "How long a request waits for its model to be loaded; 0 for 5 minutes, and for the " +
			"start-timeout of a process.",
		"holdNotice": "How long a stream waits for its model before the client gets the status 200 and comments, so " +
			"that errors come as events; 0 for never.",
		"sleepAfter": "How long nobody uses a model before it is put to sleep; 0 for never.",
		"room":       "How many models fit into the memory of a host at a time; 0 for what the engine tells.",
	}
}

// mostRoom is how many models a host can be said to have room for.
const mostRoom = 1000

// defaultWake is how long a request waits for its model where nothing is configured.
const defaultWake = 5 * time.Minute

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if s.WakeTimeout < 0 {
		report("wakeTimeout", say.New("field.wake"))
	}
	if s.HoldNotice < 0 {
		report("holdNotice", say.New("field.hold"))
	}
	if s.SleepAfter < 0 {
		report("sleepAfter", say.New("field.sleep"))
	}
	if s.Room < 0 || s.Room > mostRoom {
		report("room", say.New("field.room"))
	}
}
