package simulator

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"
)

const (
	sampleRate = 24000
	// beat is the unit of time of a melody in samples: 24 ms, which is one
	// frame of MP3 at this rate.
	beat = 576
	// binWidth is the distance in hertz between the bins of MP3's transform.
	// The tones of a melody lie on their edges, so that every format can play
	// them.
	binWidth = sampleRate / 2.0 / beat
)

// note is one token of a spoken text.
type note struct {
	bin   int // of the transform; 0 is a rest
	beats int
}

func (n note) hertz() float64 { return float64(n.bin) * binWidth }

// melodyOf turns a text into notes: a word has a pitch of its own and a length
// that grows with its letters; anything else is a rest.
func melodyOf(text string, speed float64) []note {
	// A pentatonic scale from about 250 to 900 Hz, so that any order of words
	// sounds agreeable.
	scale := [...]int{12, 14, 16, 19, 21, 25, 28, 32, 38, 43}
	var melody []note
	for len(text) > 0 {
		n := tokenLength(text)
		word := strings.TrimSpace(text[:n])
		text = text[n:]
		beats := 4.0
		bin := 0
		if first, _ := utf8.DecodeRuneInString(word); word != "" && (inWord(first) || first >= utf8.RuneSelf) {
			bin = scale[mix(seedOf(strings.ToLower(word)))%uint64(len(scale))]
			beats = 4 + 1.5*float64(min(utf8.RuneCountInString(word), 12))
		}
		melody = append(melody, note{bin, max(1, int(math.Round(beats/speed)))})
	}
	return melody
}

// beatsOf returns how long a melody is.
func beatsOf(melody []note) int {
	total := 0
	for _, n := range melody {
		total += n.beats
	}
	return total
}

// samples renders a note: a tone with a soft beginning and end, or silence.
func (n note) samples() []int16 {
	const loudness, ramp = 9000, beat
	out := make([]int16, n.beats*beat)
	if n.bin == 0 {
		return out
	}
	step := 2 * math.Pi * n.hertz() / sampleRate
	for i := range out {
		fade := min(1, float64(min(i, len(out)-1-i))/ramp)
		out[i] = int16(loudness * fade * math.Sin(step*float64(i)))
	}
	return out
}

// appendPCM adds samples as 16-bit little-endian numbers.
func appendPCM(out []byte, samples []int16) []byte {
	for _, sample := range samples {
		out = binary.LittleEndian.AppendUint16(out, uint16(sample))
	}
	return out
}

// wavHeader begins a WAV file with so many samples: 16 bits, mono.
func wavHeader(samples int) []byte {
	const frame = 2
	size := uint32(samples * frame)
	out := append([]byte("RIFF"), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(out[4:], 36+size)
	out = append(out, "WAVEfmt "...)
	out = binary.LittleEndian.AppendUint32(out, 16)
	out = binary.LittleEndian.AppendUint16(out, 1) // PCM
	out = binary.LittleEndian.AppendUint16(out, 1) // channels
	out = binary.LittleEndian.AppendUint32(out, sampleRate)
	out = binary.LittleEndian.AppendUint32(out, sampleRate*frame)
	out = binary.LittleEndian.AppendUint16(out, frame)
	out = binary.LittleEndian.AppendUint16(out, 8*frame)
	return binary.LittleEndian.AppendUint32(append(out, "data"...), size)
}
