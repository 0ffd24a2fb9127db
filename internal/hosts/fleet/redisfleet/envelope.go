package redisfleet

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// An envelope is one publication of a gateway:
//
//	version (1 byte)
//	tag (16 bytes): a part of the HMAC-SHA-256 of all that follows
//	length of the gateway's id (1 byte), and the id
//	the message of its fleet; none where the gateway only says that it is there
//
// The key of the tag is made from the secret. Gateways with different secrets do not
// take each other's messages, and nobody without the secret can make one.
const (
	version     = 1
	tagBytes    = 16
	idAt        = 1 + tagBytes
	maxID       = 64
	maxEnvelope = idAt + 1 + maxID + fleet.MaxMessage
)

var (
	errForm   = errors.New("not an envelope that this version reads")
	errSecret = errors.New("the envelope was made with another secret")
)

// codec writes and reads envelopes with one secret.
type codec struct{ key []byte }

func newCodec(secret *fleet.Secret) codec {
	// It fails for lengths of several kilobytes only.
	key, _ := hkdf.Key(sha256.New, secret[:], nil, "patchbay fleet envelopes", sha256.Size)
	return codec{key}
}

func (c codec) tag(rest []byte) []byte {
	mac := hmac.New(sha256.New, c.key)
	mac.Write(rest)
	return mac.Sum(nil)[:tagBytes]
}

// wrap returns the envelope of a message.
func (c codec) wrap(gateway string, message []byte) []byte {
	envelope := make([]byte, idAt, idAt+1+len(gateway)+len(message))
	envelope[0] = version
	envelope = append(envelope, byte(len(gateway)))
	envelope = append(envelope, gateway...)
	envelope = append(envelope, message...)
	copy(envelope[1:], c.tag(envelope[idAt:]))
	return envelope
}

// open returns the sender of an envelope and its message. The error is errSecret or
// errForm.
func (c codec) open(text string) (gateway string, message []byte, err error) {
	if len(text) <= idAt || len(text) > maxEnvelope || text[0] != version {
		return "", nil, errForm
	}
	envelope := []byte(text)
	if !hmac.Equal(envelope[1:idAt], c.tag(envelope[idAt:])) {
		return "", nil, errSecret
	}
	length, rest := int(envelope[idAt]), envelope[idAt+1:]
	if length == 0 || length > maxID || length > len(rest) {
		return "", nil, errForm
	}
	return string(rest[:length]), rest[length:], nil
}
