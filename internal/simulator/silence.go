package simulator

import "encoding/binary"

// Opus and AAC would need an encoder for a tone, but none for silence: their
// files have the length of the melody and nothing to hear.

// appendAAC adds a note as silent frames of AAC-LC, mono, each with an ADTS header.
// first is the beat at which the note begins. A frame is longer than a beat, so
// a note has the frames that end after the last one of the note before.
func appendAAC(out []byte, n note, first int) []byte {
	const (
		frameSamples = 1024
		rateIndex    = 6 // of 24 kHz
	)
	for range framesUntil(first+n.beats, frameSamples) - framesUntil(first, frameSamples) {
		var block bits
		block.put(0, 3+4)   // one channel; its number
		block.put(0, 8)     // gain
		block.put(0, 1+2+1) // one long window
		block.put(0, 6)     // no bands, so that no sections and coefficients follow
		block.put(0, 1)     // no prediction
		block.put(0, 1+1+1) // no pulses, noise shaping and gain control
		block.put(0b111, 3) // end
		for block.length()%8 != 0 {
			block.put(0, 1)
		}
		const header = 7
		var frame bits
		frame.put(0xfff, 12)
		frame.put(0b0001, 4) // MPEG-4, no checksum
		frame.put(1, 2)      // low complexity
		frame.put(rateIndex, 4)
		frame.put(0, 1)
		frame.put(1, 3) // channels
		frame.put(0, 4)
		frame.put(uint64(header+len(block.out)), 13)
		frame.put(0x7ff, 11) // variable bit rate
		frame.put(0, 2)      // one block
		out = append(append(out, frame.out...), block.out...)
	}
	return out
}

// framesUntil returns how many frames are needed for the first beats.
func framesUntil(beats, frameSamples int) int {
	return (beats*beat + frameSamples - 1) / frameSamples
}

// Numbers of Ogg pages, and of Opus, which counts its samples at 48 kHz always.
const (
	oggFirst, oggLast = 2, 4 // flags of a page

	opusRate    = 48000 / sampleRate
	opusSamples = 960 / opusRate // 20 ms, in samples of ours
	opusSerial  = 1
)

// opusHeader returns the two pages with which a file of Opus in Ogg begins.
func opusHeader() []byte {
	head := []byte("OpusHead\x01\x01") // version, channels
	head = binary.LittleEndian.AppendUint16(head, 0)
	head = binary.LittleEndian.AppendUint32(head, sampleRate)
	head = append(head, 0, 0, 0) // gain, mapping
	const vendor = "patchbay simulator"
	tags := binary.LittleEndian.AppendUint32([]byte("OpusTags"), uint32(len(vendor)))
	tags = binary.LittleEndian.AppendUint32(append(tags, vendor...), 0)
	return appendOggPage(appendOggPage(nil, oggFirst, 0, 0, head), 0, 0, 1, tags)
}

// appendOpus adds a note as pages of one silent packet each. first is the beat at
// which the note begins, and last says that no note follows.
func appendOpus(out []byte, n note, first int, last bool) []byte {
	until := framesUntil(first+n.beats, opusSamples)
	for packet := framesUntil(first, opusSamples); packet < until; packet++ {
		flags := byte(0)
		if last && packet == until-1 {
			flags = oggLast
		}
		end := uint64(packet+1) * opusSamples * opusRate
		out = appendOggPage(out, flags, end, uint32(packet)+2, []byte{0xf8, 0xff, 0xfe}) // full band, 20 ms, mono: silence
	}
	return out
}

// appendOggPage adds a page with one packet of less than 255 bytes.
func appendOggPage(out []byte, flags byte, position uint64, number uint32, packet []byte) []byte {
	start := len(out)
	out = append(out, "OggS\x00"...)
	out = append(out, flags)
	out = binary.LittleEndian.AppendUint64(out, position)
	out = binary.LittleEndian.AppendUint32(out, opusSerial)
	out = binary.LittleEndian.AppendUint32(out, number)
	checksum := len(out)
	out = append(out, 0, 0, 0, 0, 1, byte(len(packet)))
	out = append(out, packet...)
	binary.LittleEndian.PutUint32(out[checksum:], oggChecksum(out[start:]))
	return out
}

// oggChecksum is a CRC-32 whose bits are not reflected, unlike those of hash/crc32.
func oggChecksum(page []byte) uint32 {
	var crc uint32
	for _, b := range page {
		crc ^= uint32(b) << 24
		for range 8 {
			high := crc >> 31
			crc = crc<<1 ^ high*0x04c11db7
		}
	}
	return crc
}
