#include "textflag.h"

// Every amd64 processor has SSE2, so that nothing has to be asked before this is
// used. Each constant is sixteen times the same byte.

#define CONSTANT(name, word) \
	DATA name<>+0(SB)/8, $word \
	DATA name<>+8(SB)/8, $word \
	GLOBL name<>(SB), RODATA|NOPTR, $16

CONSTANT(quote, 0x2222222222222222)
CONSTANT(backslash, 0x5c5c5c5c5c5c5c5c)
CONSTANT(control, 0x1f1f1f1f1f1f1f1f)
CONSTANT(zero, 0x3030303030303030)
CONSTANT(nine, 0x0909090909090909)
CONSTANT(comma, 0x2c2c2c2c2c2c2c2c)
CONSTANT(point, 0x2e2e2e2e2e2e2e2e)
CONSTANT(minus, 0x2d2d2d2d2d2d2d2d)
CONSTANT(space, 0x2020202020202020)
CONSTANT(newline, 0x0a0a0a0a0a0a0a0a)

// GATHER puts the sixteen marks of a vector into their place among 64.
#define GATHER(vector, shift, to) \
	PMOVMSKB vector, AX \
	SHLQ     $shift, AX \
	ORQ      AX, to

// STOPS16 sets the bytes of a vector that stop a string. It leaves the text in
// another vector and adds it to X15.
#define STOPS16(offset, text, stops) \
	MOVOU   offset(SI), text \
	MOVO    text, stops \
	PMINUB  X14, stops \
	PCMPEQB text, stops \
	MOVO    text, X9 \
	PCMPEQB X12, X9 \
	MOVO    text, X10 \
	PCMPEQB X13, X10 \
	POR     X9, stops \
	POR     X10, stops \
	POR     text, X15

// func markText(text *byte, blocks int) (passed int, stop uint64, beyond bool)
TEXT ·markText(SB), NOSPLIT, $0-33
	MOVQ  text+0(FP), SI
	MOVQ  blocks+8(FP), CX
	MOVOU quote<>(SB), X12
	MOVOU backslash<>(SB), X13
	MOVOU control<>(SB), X14
	PXOR  X15, X15
	XORL  DX, DX
	XORL  R8, R8

block:
	CMPQ     DX, CX
	JGE      done
	STOPS16(0, X0, X4)
	STOPS16(16, X1, X5)
	STOPS16(32, X2, X6)
	STOPS16(48, X3, X7)
	MOVO     X4, X9
	MOVO     X6, X10
	POR      X5, X9
	POR      X7, X10
	POR      X10, X9
	PMOVMSKB X9, AX
	TESTL    AX, AX
	JNZ      found
	ADDQ     $64, SI
	INCQ     DX
	JMP      block

found:
	GATHER(X4, 0, R8)
	GATHER(X5, 16, R8)
	GATHER(X6, 32, R8)
	GATHER(X7, 48, R8)

done:
	PMOVMSKB X15, AX
	TESTL    AX, AX
	SETNE    AX
	MOVQ     DX, passed+16(FP)
	MOVQ     R8, stop+24(FP)
	MOVB     AX, beyond+32(FP)
	RET

// EQUAL16 marks the bytes of X0 that equal those of a constant.
#define EQUAL16(constant, offset, to) \
	MOVO    X0, X1 \
	PCMPEQB constant, X1 \
	GATHER(X1, offset, to)

// NUMBERS16 marks digits in R8, zeros in R9, commas in R10, points in R11, minus
// signs in R12, and spaces and line feeds in R13.
#define NUMBERS16(offset) \
	MOVOU   offset(SI), X0 \
	MOVO    X0, X1 \
	PSUBB   X4, X1 \
	MOVO    X1, X2 \
	PMINUB  X5, X2 \
	PCMPEQB X1, X2 \
	GATHER(X2, offset, R8) \
	EQUAL16(X4, offset, R9) \
	EQUAL16(X6, offset, R10) \
	EQUAL16(X7, offset, R11) \
	EQUAL16(X8, offset, R12) \
	EQUAL16(X9, offset, R13) \
	EQUAL16(X10, offset, R13)

// func markNumbers(block *[64]byte) (digit, zero, comma, point, minus, space uint64)
TEXT ·markNumbers(SB), NOSPLIT, $0-56
	MOVQ  block+0(FP), SI
	MOVOU zero<>(SB), X4
	MOVOU nine<>(SB), X5
	MOVOU comma<>(SB), X6
	MOVOU point<>(SB), X7
	MOVOU minus<>(SB), X8
	MOVOU space<>(SB), X9
	MOVOU newline<>(SB), X10
	XORL  R8, R8
	XORL  R9, R9
	XORL  R10, R10
	XORL  R11, R11
	XORL  R12, R12
	XORL  R13, R13
	NUMBERS16(0)
	NUMBERS16(16)
	NUMBERS16(32)
	NUMBERS16(48)
	MOVQ  R8, digit+8(FP)
	MOVQ  R9, zero+16(FP)
	MOVQ  R10, comma+24(FP)
	MOVQ  R11, point+32(FP)
	MOVQ  R12, minus+40(FP)
	MOVQ  R13, space+48(FP)
	RET
