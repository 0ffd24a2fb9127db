package simulator

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// recording describes an audio file by its first bytes and its size.
type recording struct {
	format  string
	details string // such as the sample rate; may be empty
	seconds float64
	exact   bool // the duration is from the file, not estimated
}

// usualRate is the assumed number of bytes per second where the format does not
// say: 128 kbit/s.
const usualRate = 16000

// inspect looks at an uploaded file.
func inspect(file *upload) recording {
	head := file.head
	if r, ok := inspectWAV(head, file.size); ok {
		return r
	}
	r := recording{format: "unknown", seconds: float64(file.size) / usualRate}
	for _, magic := range []struct {
		at            int
		start, format string
	}{
		{0, "fLaC", "FLAC"}, {0, "OggS", "Ogg"}, {4, "ftyp", "MP4"}, {0, "\x1a\x45\xdf\xa3", "WebM"}, {0, "ID3", "MP3"},
	} {
		if len(head) > magic.at && bytes.HasPrefix(head[magic.at:], []byte(magic.start)) {
			r.format = magic.format
		}
	}
	if len(head) > 2 && head[0] == 0xff && head[1]&0xe6 == 0xe2 { // a frame of layer III
		r.format = "MP3"
		if rate := mp3Rate(head); rate > 0 {
			r.seconds = float64(file.size) / float64(rate)
		}
	}
	return r
}

// mp3Rate returns the bytes per second of a file's first frame; other frames may differ.
func mp3Rate(head []byte) int {
	rates := [...]int{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0}
	if head[1]&0x18 == 0x18 { // MPEG-1; others are version 2 or 2.5
		rates = [...]int{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0}
	}
	return rates[head[2]>>4] * 1000 / 8
}

// inspectWAV reads the chunks of a WAV file up to its samples.
func inspectWAV(head []byte, size int64) (recording, bool) {
	if len(head) < 12 || string(head[:4]) != "RIFF" || string(head[8:12]) != "WAVE" {
		return recording{}, false
	}
	r := recording{format: "WAV", seconds: float64(size) / usualRate}
	rate := int64(0)
	for at := int64(12); at+8 <= int64(len(head)); {
		name, length := string(head[at:at+4]), int64(binary.LittleEndian.Uint32(head[at+4:]))
		body := head[at+8:]
		switch {
		case name == "fmt " && len(body) >= 16:
			rate = int64(binary.LittleEndian.Uint32(body[8:]))
			r.details = fmt.Sprintf("%d Hz, %d bit, %d channel(s)", binary.LittleEndian.Uint32(body[4:]),
				binary.LittleEndian.Uint16(body[14:]), binary.LittleEndian.Uint16(body[2:]))
		case name == "data" && rate > 0:
			// A file that was streamed may not know its own length.
			if rest := size - at - 8; length == 0 || length > rest {
				length = rest
			}
			r.seconds, r.exact = float64(length)/float64(rate), true
			return r, true
		}
		at += 8 + length + length&1
	}
	return r, true
}
