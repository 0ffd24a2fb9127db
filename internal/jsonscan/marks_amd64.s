#include "textflag.h"

// These need AVX2. Each constant is thirty-two times the same byte, or twice the same
// table.

#define CONSTANT(name, low, high) \
	DATA name<>+0(SB)/8, $low \
	DATA name<>+8(SB)/8, $high \
	DATA name<>+16(SB)/8, $low \
	DATA name<>+24(SB)/8, $high \
	GLOBL name<>(SB), RODATA|NOPTR, $32

#define EVERYWHERE(name, word) CONSTANT(name, word, word)

EVERYWHERE(quote, 0x2222222222222222)
EVERYWHERE(backslash, 0x5c5c5c5c5c5c5c5c)
EVERYWHERE(control, 0x1f1f1f1f1f1f1f1f)
EVERYWHERE(nibble, 0x0f0f0f0f0f0f0f0f)
EVERYWHERE(zero, 0x3030303030303030)
EVERYWHERE(nine, 0x0909090909090909)
EVERYWHERE(comma, 0x2c2c2c2c2c2c2c2c)
EVERYWHERE(point, 0x2e2e2e2e2e2e2e2e)
EVERYWHERE(minus, 0x2d2d2d2d2d2d2d2d)
EVERYWHERE(space, 0x2020202020202020)
EVERYWHERE(newline, 0x0a0a0a0a0a0a0a0a)

// What may follow a backslash, by the lower and by the upper half of the byte: a byte
// may if its two entries have a bit in common. Bit 0 is for "/ (0x22, 0x2f), bit 1 for
// \ (0x5c), bit 2 for bfn (0x62, 0x66, 0x6e), bit 3 for rt (0x72, 0x74).
CONSTANT(lower, 0x00040008000d0000, 0x0104000200000000)
CONSTANT(upper, 0x0804020000010000, 0)

// GATHER puts the marks of two vectors beside each other.
#define GATHER(first, second, to) \
	VPMOVMSKB first, to \
	VPMOVMSKB second, AX \
	SHLQ      $32, AX \
	ORQ       AX, to

// ENDS sets the bytes of a vector that may follow a backslash.
#define ENDS(text, to) \
	VPSHUFB  text, Y10, Y8 \
	VPSRLW   $4, text, to \
	VPAND    nibble<>(SB), to, to \
	VPSHUFB  to, Y11, to \
	VPAND    Y8, to, to \
	VPXOR    Y8, Y8, Y8 \
	VPCMPEQB Y8, to, to

// func vectorText(text *byte, blocks int) (passed int, stop uint64, found textTraits)
//
// R8, R9, R10: marks of control characters, quotes and backslashes. R11: what stands
// behind a backslash. R12: whether the first byte of the next block does. R13: whether
// there were backslashes. DI: every second bit.
TEXT ·vectorText(SB), NOSPLIT, $0-33
	MOVQ    text+0(FP), SI
	MOVQ    blocks+8(FP), CX
	VMOVDQU lower<>(SB), Y10
	VMOVDQU upper<>(SB), Y11
	VMOVDQU quote<>(SB), Y12
	VMOVDQU backslash<>(SB), Y13
	VMOVDQU control<>(SB), Y14
	VPXOR   Y15, Y15, Y15
	MOVQ    $0xaaaaaaaaaaaaaaaa, DI
	XORL    DX, DX
	XORL    BX, BX
	XORL    R12, R12
	XORL    R13, R13

block:
	CMPQ      DX, CX
	JGE       done
	VMOVDQU   (SI), Y0
	VMOVDQU   32(SI), Y1
	VPOR      Y0, Y15, Y15
	VPOR      Y1, Y15, Y15
	VPMINUB   Y14, Y0, Y2
	VPMINUB   Y14, Y1, Y3
	VPCMPEQB  Y0, Y2, Y2
	VPCMPEQB  Y1, Y3, Y3
	VPCMPEQB  Y12, Y0, Y4
	VPCMPEQB  Y12, Y1, Y5
	VPCMPEQB  Y13, Y0, Y6
	VPCMPEQB  Y13, Y1, Y7
	VPOR      Y2, Y3, Y8
	VPOR      Y4, Y5, Y9
	VPOR      Y8, Y9, Y8
	VPOR      Y6, Y7, Y9
	VPOR      Y8, Y9, Y8
	VPMOVMSKB Y8, AX
	ORQ       R12, AX
	JZ        next
	GATHER(Y2, Y3, R8)
	GATHER(Y4, Y5, R9)
	GATHER(Y6, Y7, R10)
	MOVQ      R8, BX
	ORQ       R9, BX
	MOVQ      R10, AX
	ORQ       R12, AX
	JZ        plain

	// Of backslashes in a row every second one stands behind one. The subtraction
	// finds out which: it borrows through each row.
	MOVQ      R12, R11
	NOTQ      R11
	ANDQ      R10, R11       // those that may begin a sequence
	LEAQ      (R11)(R11*1), BX
	ORQ       DI, BX
	SUBQ      R11, BX
	XORQ      DI, BX         // those that do, and what they escape
	MOVQ      R10, R11
	ORQ       R12, R11
	XORQ      BX, R11        // what they escape
	ANDQ      R10, BX
	MOVQ      BX, R12
	SHRQ      $63, R12
	ENDS(Y0, Y2)
	ENDS(Y1, Y3)
	GATHER(Y2, Y3, BX)       // what ends no sequence
	ANDQ      R11, BX
	NOTQ      R11
	ANDQ      R11, R9
	ORQ       R9, BX
	ORQ       R8, BX
	JNZ       found
	MOVL      $1, R13
	JMP       next

plain:
	TESTQ BX, BX
	JNZ   done

next:
	ADDQ $64, SI
	INCQ DX
	JMP  block

found:
	// The backslashes in front of what stops the string.
	LEAQ  -1(BX), AX
	ANDQ  R10, AX
	MOVQ  BX, R11
	NOTQ  R11
	XORL  R12, R12
	ANDQ  R11, AX
	JZ    done
	MOVL  $1, R13

done:
	VPMOVMSKB Y15, AX
	TESTL     AX, AX
	SETNE     AX
	SHLL      $1, R13
	SHLL      $2, R12
	ORL       R13, AX
	ORL       R12, AX
	MOVQ      DX, passed+16(FP)
	MOVQ      BX, stop+24(FP)
	MOVB      AX, found+32(FP)
	VZEROUPPER
	RET

// MARK gathers the bytes of the block that equal those of a constant.
#define MARK(constant, to) \
	VPCMPEQB constant<>(SB), Y0, Y2 \
	VPCMPEQB constant<>(SB), Y1, Y3 \
	GATHER(Y2, Y3, to)

// func vectorNumbers(block *[64]byte) (digit, zero, comma, point, minus, space uint64)
TEXT ·vectorNumbers(SB), NOSPLIT, $0-56
	MOVQ     block+0(FP), SI
	VMOVDQU  (SI), Y0
	VMOVDQU  32(SI), Y1
	MARK(zero, R9)
	MARK(comma, R10)
	MARK(point, R11)
	MARK(minus, R12)
	VMOVDQU  space<>(SB), Y4
	VMOVDQU  newline<>(SB), Y5
	VPCMPEQB Y4, Y0, Y2
	VPCMPEQB Y4, Y1, Y3
	VPCMPEQB Y5, Y0, Y6
	VPCMPEQB Y5, Y1, Y7
	VPOR     Y6, Y2, Y2
	VPOR     Y7, Y3, Y3
	GATHER(Y2, Y3, R13)
	VMOVDQU  zero<>(SB), Y4
	VMOVDQU  nine<>(SB), Y5
	VPSUBB   Y4, Y0, Y0
	VPSUBB   Y4, Y1, Y1
	VPMINUB  Y5, Y0, Y2
	VPMINUB  Y5, Y1, Y3
	VPCMPEQB Y0, Y2, Y2
	VPCMPEQB Y1, Y3, Y3
	GATHER(Y2, Y3, R8)
	MOVQ     R8, digit+8(FP)
	MOVQ     R9, zero+16(FP)
	MOVQ     R10, comma+24(FP)
	MOVQ     R11, point+32(FP)
	MOVQ     R12, minus+40(FP)
	MOVQ     R13, space+48(FP)
	VZEROUPPER
	RET
