package simulator

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

const (
	usualDimensions = 64
	mostDimensions  = 4096
	mostInputs      = 2048
	// bucketsPerWord spreads a word: two words that share a bucket by chance still differ
	// in the others.
	bucketsPerWord = 4
)

// embed returns a bag of hashed words of unit length: texts that share words
// are closer to each other than texts that do not.
func embed(words []string, dimensions int) []float32 {
	sums := make([]float64, dimensions)
	for _, word := range words {
		hash := mix(seedOf(word))
		for range bucketsPerWord {
			sign := 1.0
			if hash&1 == 1 {
				sign = -1
			}
			sums[(hash>>1)%uint64(dimensions)] += sign
			hash = mix(hash)
		}
	}
	square := 0.0
	for _, sum := range sums {
		square += sum * sum
	}
	if square == 0 { // no words, or words that cancel each other
		sums[0], square = 1, 1
	}
	vector := make([]float32, dimensions)
	for i, sum := range sums {
		vector[i] = float32(sum / math.Sqrt(square))
	}
	return vector
}

// mix scatters the bits of a hash (the finalizer of SplitMix64).
func mix(hash uint64) uint64 {
	hash += 0x9e3779b97f4a7c15
	hash = (hash ^ hash>>30) * 0xbf58476d1ce4e5b9
	hash = (hash ^ hash>>27) * 0x94d049bb133111eb
	return hash ^ hash>>31
}

// wordsOf returns the words of a text in lower case, without punctuation.
func wordsOf(text string) []string {
	var words []string
	text = strings.ToLower(text)
	for len(text) > 0 {
		n := tokenLength(text)
		word := strings.TrimSpace(text[:n])
		text = text[n:]
		if word != "" && (len(word) > 1 || inWord(rune(word[0]))) {
			words = append(words, word)
		}
	}
	return words
}

// appendVector adds a vector as a JSON array.
func appendVector(out []byte, vector []float32) []byte {
	out = append(out, '[')
	for i, value := range vector {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendFloat(out, float64(value), 'g', -1, 32)
	}
	return append(out, ']')
}

// appendVectorBase64 adds a vector as a JSON string: base64 of little-endian floats.
func appendVectorBase64(out []byte, vector []float32) []byte {
	raw := make([]byte, 0, 4*len(vector))
	for _, value := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(value))
	}
	return append(base64.StdEncoding.AppendEncode(append(out, '"'), raw), '"')
}
