package simulator

// flacHeader begins a FLAC file with so many samples: 16 bits, mono. Blocks are
// one beat long.
func flacHeader(samples int) []byte {
	var b bits
	b.out = append(b.out, "fLaC"...)
	b.put(0x80, 8) // the last block of metadata, of type STREAMINFO
	b.put(34, 24)
	b.put(beat, 16)
	b.put(beat, 16)
	b.put(0, 24+24) // sizes of frames are not known
	b.put(sampleRate, 20)
	b.put(0, 3)    // channels less one
	b.put(16-1, 5) // bits per sample less one
	b.put(uint64(samples), 36)
	b.put(0, 64) // no checksum
	b.put(0, 64)
	return b.out
}

// appendFLAC adds a note as frames that hold their samples as they are, or once
// where they are all the same. first numbers the frames of a file.
func appendFLAC(out []byte, n note, first int) []byte {
	samples := n.samples()
	for i := range n.beats {
		block := samples[i*beat : (i+1)*beat]
		var b bits
		b.put(0xfff8, 16) // blocks of one length
		b.put(0x7, 4)     // the length follows, in 16 bits
		b.put(0x7, 4)     // 24 kHz
		b.put(0, 4)       // mono
		b.put(0x4<<1, 4)  // 16 bits
		b.putNumber(uint64(first + i))
		b.put(beat-1, 16)
		b.put(uint64(crc8(b.out)), 8)
		if n.bin == 0 {
			b.put(0, 8+16) // constant
		} else {
			b.put(1<<1, 8) // verbatim
			for _, sample := range block {
				b.put(uint64(uint16(sample)), 16)
			}
		}
		b.put(uint64(crc16(b.out)), 16)
		out = append(out, b.out...)
	}
	return out
}

// putNumber adds the number of a frame in the way UTF-8 writes characters.
func (b *bits) putNumber(n uint64) {
	if n < 0x80 {
		b.put(n, 8)
		return
	}
	extra := 1
	for n >= 1<<(5*extra+6) {
		extra++
	}
	b.put((0xff00>>(extra+1))&0xff|n>>(6*extra), 8)
	for extra--; extra >= 0; extra-- {
		b.put(0x80|n>>(6*extra)&0x3f, 8)
	}
}

func crc8(data []byte) uint8 {
	crc := uint8(0)
	for _, c := range data {
		crc ^= c
		for range 8 {
			carry := crc & 0x80
			crc <<= 1
			if carry != 0 {
				crc ^= 0x07
			}
		}
	}
	return crc
}

func crc16(data []byte) uint16 {
	crc := uint16(0)
	for _, c := range data {
		crc ^= uint16(c) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x8005
			}
		}
	}
	return crc
}
