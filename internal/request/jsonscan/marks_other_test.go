//go:build !amd64

package jsonscan

const hasVectors = false
