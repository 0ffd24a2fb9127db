package schema

import (
	"fmt"
	"slices"
	"strings"
)

// Door is one of the endpoints through which clients send requests of a service
// type. The first doors have the unified shape and the numbers of their service
// types; the others have shapes of their own.
type Door uint8

// The doors.
const (
	DoorChat Door = iota
	DoorEmbeddings
	DoorRerank
	DoorSpeech
	DoorTranscriptions
	DoorImages
	DoorImageEdits
	DoorMessages
	DoorResponses
	DoorCompletions
	DoorModerations
	DoorTranslations
	DoorCountTokens

	// DoorCount sizes arrays that are indexed by Door.
	DoorCount = int(DoorCountTokens) + 1
)

var doorNames = [DoorCount]string{
	"chat", "embeddings", "rerank", "speech", "transcriptions", "images", "image_edits",
	"messages", "responses", "completions", "moderations", "translations", "count_tokens",
}

// doorServices are the service types of the doors: how their requests are routed,
// limited and counted.
var doorServices = [DoorCount]ServiceType{
	Chat, Embedding, Rerank, TTS, STT, ImgGen, ImgEdit, Chat, Chat, Chat, Chat, STT, Chat,
}

// Doors returns every door in its listing order.
func Doors() []Door {
	all := make([]Door, DoorCount)
	for i := range all {
		all[i] = Door(i)
	}
	return all
}

// String returns the name of the door in records and metrics.
func (d Door) String() string { return NameOf(d, doorNames[:]) }

// MarshalText writes the name of the door.
func (d Door) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Names returns the names of all doors.
func (Door) Names() []string { return append([]string(nil), doorNames[:]...) }

// Service returns the service type of the door's requests.
func (d Door) Service() ServiceType { return doorServices[d] }

// ParseDoor returns the door of a name.
func ParseDoor(name string) (Door, error) {
	if i := slices.Index(doorNames[:], name); i >= 0 {
		return Door(i), nil
	}
	return 0, fmt.Errorf("must be one of %s", strings.Join(doorNames[:], ", "))
}

// IsTranslated tells whether requests reach backends that do not have the door: they are
// translated, or the gateway answers them itself.
func (d Door) IsTranslated() bool {
	return d == DoorMessages || d == DoorResponses || d == DoorCountTokens
}

// IsUnified tells whether requests and answers have the unified shape.
func (d Door) IsUnified() bool { return int(d) < ServiceTypeCount }
