package jsonscan

import "golang.org/x/sys/cpu"

// hasVectors reports whether blocks are passed over by vector instructions.
var hasVectors = cpu.X86.HasAVX2
