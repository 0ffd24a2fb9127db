// Package schema holds the words that every other package shares: the service types,
// the unified requests and the rules for valid ones, token usage, and the error body of
// the unified API.
package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// ServiceType is one of the seven kinds of model request that the gateway routes.
type ServiceType uint8

// The service types, in the usual order of lists.
const (
	Chat ServiceType = iota
	Embedding
	Rerank
	TTS
	STT
	ImgGen
	ImgEdit

	// ServiceTypeCount sizes arrays that are indexed by ServiceType.
	ServiceTypeCount = int(ImgEdit) + 1
)

var serviceNames = [ServiceTypeCount]string{"chat", "embedding", "rerank", "tts", "stt", "imgGen", "imgEdit"}

// ServiceTypes returns every service type in its listing order.
func ServiceTypes() []ServiceType {
	all := make([]ServiceType, ServiceTypeCount)
	for i := range all {
		all[i] = ServiceType(i)
	}
	return all
}

// String returns the name that the configuration and the API use.
func (t ServiceType) String() string { return NameOf(t, serviceNames[:]) }

var servicePaths = [ServiceTypeCount]string{"/v1/chat/completions", "/v1/embeddings", "/v1/rerank",
	"/v1/audio/speech", "/v1/audio/transcriptions", "/v1/images/generations", "/v1/images/edits"}

// Path returns the endpoint of the unified API for requests of the type.
func (t ServiceType) Path() string { return servicePaths[t] }

// ReportsTokens reports whether answers of the type normally say how many tokens they
// cost. The others are counted in other things, if in any.
func (t ServiceType) ReportsTokens() bool { return t == Chat || t == Embedding }

// MarshalText writes the name of the service type.
func (t ServiceType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a service type in any of its spellings.
func (t *ServiceType) UnmarshalText(text []byte) error {
	return ReadName(t, "service type", string(text), serviceNames[:])
}

// ParseServiceType reads a service type in any of its spellings: imgGen,
// img-gen, img_gen and IMG_GEN are the same.
func ParseServiceType(name string) (t ServiceType, err error) {
	err = t.UnmarshalText([]byte(name))
	return t, err
}

// NameOf returns the name of a value, for types with values that are the indexes of
// their names. A value without a name is shown as a number behind its type.
func NameOf[T ~uint8](value T, names []string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", reflect.TypeFor[T]().Name(), uint8(value))
}

// ReadName reads the name of a value into it, for types with values that are the indexes
// of their names. It takes every spelling that Fold makes equal. The error calls a value
// by the noun; after an error the value is as before.
func ReadName[T ~uint8](into *T, noun, name string, names []string) error {
	folded := Fold(name)
	for i, known := range names {
		if folded == Fold(known) {
			*into = T(i)
			return nil
		}
	}
	return say.Error("field.unknown_name", "noun", noun, "name", name, "known", strings.Join(names, ", "))
}

// Fold reduces a name to one form that is equal for its kebab-case, camelCase and
// snake_case spellings.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '-' || r == '_':
			return -1
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		}
		return r
	}, name)
}

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
	DoorOllamaChat
	DoorOllamaGenerate
	DoorOllamaEmbed
	DoorOllamaEmbeddings
	DoorInputTokens
	DoorCompact
	DoorGemini
	DoorGeminiCount
	DoorGeminiEmbed
	DoorGeminiBatchEmbed
	DoorTokenize
	DoorDetokenize
	DoorScore
	DoorClassify
	DoorPooling
	DoorInfill
	DoorRealtime

	// DoorCount sizes arrays that are indexed by Door.
	DoorCount = int(DoorRealtime) + 1
)

var doorNames = [DoorCount]string{
	"chat", "embeddings", "rerank", "speech", "transcriptions", "images", "image_edits",
	"messages", "responses", "completions", "moderations", "translations", "count_tokens",
	"ollama_chat", "ollama_generate", "ollama_embed", "ollama_embeddings", "input_tokens", "compact",
	"gemini", "gemini_count_tokens", "gemini_embed", "gemini_batch_embed",
	"tokenize", "detokenize", "score", "classify", "pooling", "infill", "realtime",
}

// doorServices are the service types of the doors: how their requests are routed,
// limited and counted.
var doorServices = [DoorCount]ServiceType{
	Chat, Embedding, Rerank, TTS, STT, ImgGen, ImgEdit, Chat, Chat, Chat, Chat, STT, Chat,
	Chat, Chat, Embedding, Embedding, Chat, Chat,
	Chat, Chat, Embedding, Embedding,
	Chat, Chat, Rerank, Embedding, Embedding, Chat, Chat,
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

// UnmarshalText reads the name of a door.
func (d *Door) UnmarshalText(name []byte) error {
	if i := slices.Index(doorNames[:], string(name)); i >= 0 {
		*d = Door(i)
		return nil
	}
	return say.Error("field.one_of", "known", strings.Join(doorNames[:], ", "))
}

// IsTranslated reports whether requests reach backends that do not have the door: they
// are translated, or the gateway answers them itself.
func (d Door) IsTranslated() bool {
	switch d {
	case DoorMessages, DoorResponses, DoorCountTokens, DoorInputTokens, DoorCompact, DoorOllamaChat, DoorOllamaGenerate,
		DoorOllamaEmbed, DoorOllamaEmbeddings,
		DoorGemini, DoorGeminiCount, DoorGeminiEmbed, DoorGeminiBatchEmbed:
		return true
	}
	return false
}

// IsUnified reports whether requests and answers have the unified shape.
func (d Door) IsUnified() bool { return int(d) < ServiceTypeCount }
