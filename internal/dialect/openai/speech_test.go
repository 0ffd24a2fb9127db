package openai

import "testing"

func TestAudioTypeTrustsTheBytesFirst(t *testing.T) {
	for _, c := range []struct{ said, asked, first, want string }{
		{"audio/mpeg", "mp3", "RIFF\x24\x00\x00\x00WAVE", "audio/wav"},
		{"application/json", "mp3", "ID3\x04", "audio/mpeg"},
		{"", "wav", "OggS\x00", "audio/ogg"},
		{"text/html", "opus", "fLaC\x00", "audio/flac"},
		{"audio/mpeg", "wav", "\xff\xfb\x90", "audio/mpeg"},
		{"audio/wav", "mp3", "\xff\xf1\x50", "audio/aac"},
		{"audio/mpeg", "wav", "samples", "audio/wav"},
		{"audio/mpeg", "Opus", "x", "audio/ogg"},
		{"audio/mpeg", "pcm", "\xff\xfb\x00", "audio/pcm"},
		{"audio/L16; rate=24000", "pcm", "\x00\x01", "audio/L16; rate=24000"},
		{"audio/x-wav", "wav", "x", "audio/x-wav"},
		{"audio/x-voice", "tape", "x", "audio/x-voice"},
		{"audio/x-wav", "", "", "audio/x-wav"},
		{"application/octet-stream", "", "x", "audio/mpeg"},
		{"text/event-stream", "wav", "data: {}", "text/event-stream"},
		{"application/octet-stream", "mp3", "", "audio/mpeg"},
		{"", "OPUS", "x", "audio/ogg"},
		{"", "aac", "x", "audio/aac"},
		{"", "flac", "x", "audio/flac"},
		{"", "wav", "x", "audio/wav"},
		{"", "pcm", "\x00\x01", "audio/pcm"},
		{"", "tape", "x", "application/octet-stream"},
	} {
		if got := audioType(c.said, c.asked, []byte(c.first)); got != c.want {
			t.Errorf("said %q, asked for %q, begins with %q: %s, want %s", c.said, c.asked, c.first, got, c.want)
		}
	}
}
