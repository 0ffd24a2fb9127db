package simulator

// appendMP3 adds a note as frames of MPEG-2 layer III, mono, 32 kbit/s, one per
// beat. A tone is a single number in the transformed domain, so no encoder is
// needed: every frame sets bin n to one, and the gain sets the loudness.
func appendMP3(out []byte, n note) []byte {
	const (
		frameLength = 96 // 72 × 32000 / 24000
		header      = 0xfff344c0
		loudness    = 203 // global_gain; each 4 more double the amplitude
		pairs       = 1   // the Huffman table for values up to 1
	)
	for i := range n.beats {
		var data bits
		if n.bin > 0 {
			for range n.bin / 2 {
				data.put(1, 1) // both values of the pair are 0
			}
			// The sign of a steady tone on the edge of an odd bin alternates between frames.
			sign := uint64(i * n.bin & 1)
			if n.bin%2 == 0 {
				data.put(0b01, 2) // (1, 0)
			} else {
				data.put(0b001, 3) // (0, 1)
			}
			data.put(sign, 1)
		}
		var frame bits
		frame.put(header, 32)
		frame.put(0, 8+1) // main data begins here; private bit
		frame.put(uint64(data.length()), 12)
		if n.bin > 0 {
			frame.put(uint64(n.bin/2+1), 9)
		} else {
			frame.put(0, 9)
		}
		frame.put(loudness, 8)
		frame.put(0, 9) // no scale factors
		frame.put(0, 1) // one long window
		frame.put(pairs, 5)
		frame.put(pairs, 5)
		frame.put(pairs, 5)
		frame.put(0, 4+3+1+1)
		out = append(append(out, frame.out...), data.out...)
		out = append(out, make([]byte, frameLength-len(frame.out)-len(data.out))...)
	}
	return out
}
