package schema

import (
	"hash/maphash"
	"io"
)

// digestedFile is how much of each file of a form goes into a digest; its name and
// size go in as well.
const digestedFile = 64 << 10

// Digest returns a number that requests with the same content share, and others
// almost never. Equal digests need the same seed.
func (r *Request) Digest(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	// Neither writing to the hash nor reading from memory or a spooled file that
	// was read before returns an error that matters: at worst, a retry counts.
	_ = h.WriteByte(byte(r.Door))
	if r.Form == nil {
		_, _ = h.Write(r.Body.Data())
		return h.Sum64()
	}
	for i := range r.Form.Parts {
		part := &r.Form.Parts[i]
		maphash.WriteComparable(&h, part.Name)
		maphash.WriteComparable(&h, part.Value)
		if file := part.File; file != nil {
			maphash.WriteComparable(&h, file.Filename)
			maphash.WriteComparable(&h, file.Size)
			_, _ = io.Copy(&h, io.LimitReader(file.Open(), digestedFile))
		}
	}
	return h.Sum64()
}
