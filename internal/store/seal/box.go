package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

// BoxHead is how many bytes the head of a box has: the id of the master key, and a salt.
const BoxHead = 2*idBytes + boxSalt

// BoxOverhead is the number of bytes that sealing adds to a part.
const BoxOverhead = 16

const boxSalt = 24

// Box encrypts the parts of one file that is too large to be sealed as a whole. Each part
// has a number, which is used once. A nil Box encrypts nothing.
type Box struct {
	aead      cipher.AEAD
	isCurrent bool
}

// IsCurrent reports whether the box was made with the current master key.
func (b *Box) IsCurrent() bool { return b != nil && b.isCurrent }

// NewBox returns a box for a new file, and the head of the file. Without keys it returns
// nil for both.
func (k *Keys) NewBox(purpose string) (head []byte, box *Box) {
	if k == nil {
		return nil, nil
	}
	head = append(head, k.current.id...)
	head = append(head, make([]byte, boxSalt)...)
	_, _ = rand.Read(head[2*idBytes:]) // never fails
	return head, k.current.box(purpose, head)
}

// OpenBox returns the box of a file that begins with a head.
func (k *Keys) OpenBox(purpose string, head []byte) (*Box, error) {
	if len(head) != BoxHead {
		return nil, ErrDamaged
	}
	if k == nil {
		return nil, ErrKey
	}
	by := k.byID[string(head[:2*idBytes])]
	if by == nil {
		return nil, ErrKey
	}
	box := by.box(purpose, head)
	box.isCurrent = by == k.current
	return box, nil
}

func (k *key) box(purpose string, head []byte) *Box {
	// None of these fails for keys of this length.
	secret, _ := hkdf.Expand(sha256.New, k.deriving, purpose+" "+string(head), keyBytes)
	block, _ := aes.NewCipher(secret)
	aead, _ := cipher.NewGCM(block)
	return &Box{aead: aead}
}

// Seal appends an encrypted part to a text. No two parts of a file may have the same number.
func (b *Box) Seal(to []byte, number uint64, part []byte) []byte {
	if b == nil {
		return append(to, part...)
	}
	return b.aead.Seal(to, b.nonce(number), part, nil)
}

// Open appends a part that was sealed to a text.
func (b *Box) Open(to []byte, number uint64, sealed []byte) ([]byte, error) {
	if b == nil {
		return append(to, sealed...), nil
	}
	opened, err := b.aead.Open(to, b.nonce(number), sealed, nil)
	if err != nil {
		return nil, ErrDamaged
	}
	return opened, nil
}

func (b *Box) nonce(number uint64) []byte {
	nonce := make([]byte, b.aead.NonceSize())
	binary.BigEndian.PutUint64(nonce[b.aead.NonceSize()-8:], number)
	return nonce
}
