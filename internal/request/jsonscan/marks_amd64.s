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
EVERYWHERE(continues, 0x8080808080808080)
EVERYWHERE(begins, 0x6060606060606060)
EVERYWHERE(top, 0xc0c0c0c0c0c0c0c0)
EVERYWHERE(shape, 0x3030303030303030)
EVERYWHERE(surrogate, 0x0d0d0d0d0d0d0d0d)

// Every third byte is set, of three vectors that begin one word apart: those that begin characters.
DATA leads<>+0(SB)/8, $0x00ff0000ff0000ff
DATA leads<>+8(SB)/8, $0xff0000ff0000ff00
DATA leads<>+16(SB)/8, $0x0000ff0000ff0000
DATA leads<>+24(SB)/8, $0x00ff0000ff0000ff
DATA leads<>+32(SB)/8, $0xff0000ff0000ff00
DATA leads<>+40(SB)/8, $0x0000ff0000ff0000
GLOBL leads<>(SB), RODATA|NOPTR, $48

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

// func vectorText(text *byte, blocks int) (passed int, stop uint64, found uint8)
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

// LEADS is what stands behind the marks: those of this block, and one from the last.
#define LEADS(last, marks, to) \
	MOVQ last, to \
	LEAQ (to)(marks*2), to

// RUN leaves the marks that have another one n places above.
#define RUN(n) \
	MOVQ AX, DI \
	SHRQ $n, DI \
	ANDQ DI, AX

// func vectorNumbers(text *byte, blocks int) (passed int)
//
//  R8 to R13: digits, zeros, commas, points,
// minus signs, spaces. R14: what is wrong. R15: the part of the block that is looked at.
// BX, and what is on the stack: what the last block means for this one. DX: behind the
// last comma that was passed.
TEXT ·vectorNumbers(SB), NOSPLIT, $48-24
	MOVQ text+0(FP), SI
	MOVQ blocks+8(FP), CX
	MOVQ SI, DX
	MOVL $1, BX
	XORL AX, AX
	MOVQ AX, minus-8(SP)
	MOVQ AX, zero-16(SP)
	MOVQ AX, digit-24(SP)
	MOVQ AX, point-32(SP)
	MOVQ AX, fraction-40(SP)
	MOVQ AX, run-48(SP)

block:
	DECQ     CX
	JLT      done
	VMOVDQU  (SI), Y0
	VMOVDQU  32(SI), Y1
	MARK(zero, R9)
	MARK(comma, R10)
	MARK(point, R11)
	MARK(minus, R12)
	VPCMPEQB space<>(SB), Y0, Y2
	VPCMPEQB space<>(SB), Y1, Y3
	VPCMPEQB newline<>(SB), Y0, Y4
	VPCMPEQB newline<>(SB), Y1, Y5
	VPOR     Y4, Y2, Y2
	VPOR     Y5, Y3, Y3
	GATHER(Y2, Y3, R13)
	VPSUBB   zero<>(SB), Y0, Y0
	VPSUBB   zero<>(SB), Y1, Y1
	VPMINUB  nine<>(SB), Y0, Y2
	VPMINUB  nine<>(SB), Y1, Y3
	VPCMPEQB Y0, Y2, Y2
	VPCMPEQB Y1, Y3, Y3
	GATHER(Y2, Y3, R8)

	// The part before anything else, which is the end.
	MOVQ R8, AX
	ORQ  R10, AX
	ORQ  R11, AX
	ORQ  R12, AX
	ORQ  R13, AX
	MOVQ $-1, R15
	NOTQ AX
	TESTQ AX, AX
	JZ   begins
	LEAQ -1(AX), R15
	NOTQ AX
	ANDQ AX, R15
	ANDQ R15, R10
	JZ   done
	XORL CX, CX

begins:
	// Where numbers begin: behind commas, carried over spaces.
	LEAQ (BX)(R10*2), AX
	ADDQ R13, AX
	SBBQ BX, BX
	NEGQ BX
	MOVQ R10, DI
	SHRQ $63, DI
	ORQ  DI, BX
	MOVQ R13, R14
	ANDQ AX, R14             // spaces that stand elsewhere
	MOVQ R13, DI
	NOTQ DI
	ANDQ DI, AX
	MOVQ AX, DI
	NOTQ DI
	ANDQ R12, DI
	ORQ  DI, R14             // minus signs that do

	// The first digit of each number.
	MOVQ AX, DI
	ANDQ R12, DI
	NOTQ R12
	ANDQ R12, AX
	LEADS(minus-8(SP), DI, R12)
	ORQ  R12, AX
	SHRQ $63, DI
	MOVQ DI, minus-8(SP)
	MOVQ R8, DI
	NOTQ DI                  // no digits, from here on
	MOVQ AX, R12
	ANDQ DI, R12
	ORQ  R12, R14
	ANDQ R9, AX
	LEADS(zero-16(SP), AX, R12)
	ANDQ R8, R12
	ORQ  R12, R14            // digits behind a zero in front
	SHRQ $63, AX
	MOVQ AX, zero-16(SP)

	// Points have digits on both sides, and no second point behind them.
	LEADS(digit-24(SP), R8, R12)
	NOTQ R12
	ANDQ R11, R12
	ORQ  R12, R14
	MOVQ R8, AX
	SHRQ $63, AX
	MOVQ AX, digit-24(SP)
	LEADS(point-32(SP), R11, R12)
	SHRQ $63, R11
	MOVQ R11, point-32(SP)
	MOVQ R12, AX
	ANDQ DI, AX
	ORQ  AX, R14
	MOVQ fraction-40(SP), AX
	NEGQ AX                  // sets the carry
	ADCQ R8, R12
	SBBQ AX, AX
	NEGQ AX
	MOVQ AX, fraction-40(SP)
	ANDQ DI, R12
	MOVQ R10, AX
	NOTQ AX
	ANDQ AX, R12
	ORQ  R12, R14
	TESTQ R15, R14
	JNZ  done

	// No number is longer than a short element: neither one that began in the last
	// block nor one within this block.
	ORQ  R10, R13
	BSFQ R13, AX
	MOVL $64, DI
	CMOVQEQ DI, AX
	ADDQ run-48(SP), AX
	CMPQ AX, $32
	JGT  done
	MOVQ R13, AX
	NOTQ AX
	ANDQ R15, AX
	RUN(1)
	RUN(2)
	RUN(4)
	RUN(8)
	RUN(16)
	MOVQ AX, DI
	SHRQ $1, DI
	TESTQ DI, AX
	JNZ  done
	BSRQ R13, AX
	MOVQ $-1, DI
	CMOVQEQ DI, AX
	NEGQ AX
	ADDQ $63, AX
	MOVQ AX, run-48(SP)
	BSRQ R10, AX
	JZ   next
	LEAQ 1(SI)(AX*1), DX

next:
	ADDQ $64, SI
	JMP  block

done:
	SUBQ text+0(FP), DX
	MOVQ DX, passed+16(FP)
	VZEROUPPER
	RET

// PATTERN makes of leads what characters are compared with: 0xe0 where they begin and 0x80 elsewhere.
#define PATTERN(leads, to) \
	VPAND begins<>(SB), leads, to \
	VPOR  continues<>(SB), to, to

// func vectorTriples(text *byte, blocks int) (passed int)
//
// Y3: bits that differ from the pattern. Y0: the first bytes of all characters. Their lower half is
// neither 0 nor 0xd.
TEXT ·vectorTriples(SB), NOSPLIT, $0-24
	MOVQ    text+0(FP), SI
	MOVQ    blocks+8(FP), CX
	VMOVDQU leads<>+0(SB), Y6
	VMOVDQU leads<>+8(SB), Y7
	VMOVDQU leads<>+16(SB), Y8
	PATTERN(Y6, Y9)
	PATTERN(Y7, Y10)
	PATTERN(Y8, Y11)
	VMOVDQU top<>(SB), Y12
	VMOVDQU shape<>(SB), Y13
	VMOVDQU surrogate<>(SB), Y14
	VPXOR   Y15, Y15, Y15
	XORL    DX, DX

block:
	CMPQ     DX, CX
	JGE      done
	VPXOR    (SI), Y9, Y0
	VPXOR    32(SI), Y10, Y1
	VPXOR    64(SI), Y11, Y2
	VPOR     Y0, Y1, Y3
	VPOR     Y2, Y3, Y3
	VPAND    Y12, Y3, Y3
	VPAND    Y6, Y0, Y0
	VPAND    Y7, Y1, Y1
	VPAND    Y8, Y2, Y2
	VPOR     Y1, Y0, Y0
	VPOR     Y2, Y0, Y0
	VPAND    Y13, Y0, Y1
	VPOR     Y1, Y3, Y3
	VPCMPEQB Y15, Y0, Y1
	VPOR     Y1, Y3, Y3
	VPCMPEQB Y14, Y0, Y1
	VPOR     Y1, Y3, Y3
	VPTEST   Y3, Y3
	JNZ      done
	ADDQ     $96, SI
	INCQ     DX
	JMP      block

done:
	MOVQ DX, passed+16(FP)
	VZEROUPPER
	RET
