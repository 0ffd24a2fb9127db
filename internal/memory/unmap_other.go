//go:build !linux

package memory

// ReleaseProgram does nothing here; on Linux it takes the pages of the program that
// only starting needed out of the process.
func ReleaseProgram() error { return nil }
