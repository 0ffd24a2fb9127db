package simulator

import (
	"image"
	"strings"
	"unicode"
)

// Letters are 3 pixels wide and 5 high, with one pixel between them.
const (
	letterWidth  = 4
	letterHeight = 6
)

// letters has five rows per character, each a number from 0 to 7 whose bits are
// the pixels of the row. There is one case only.
var letters = map[rune]string{
	'A': "25755", 'B': "65656", 'C': "34443", 'D': "65556", 'E': "74647", 'F': "74644", 'G': "34553",
	'H': "55755", 'I': "72227", 'J': "11152", 'K': "55655", 'L': "44447", 'M': "57755", 'N': "65555",
	'O': "25552", 'P': "65644", 'Q': "25563", 'R': "65655", 'S': "34216", 'T': "72222", 'U': "55557",
	'V': "55522", 'W': "55775", 'X': "55255", 'Y': "55222", 'Z': "71247",
	'0': "75557", '1': "26227", '2': "61247", '3': "71317", '4': "55711", '5': "74616", '6': "34757",
	'7': "71122", '8': "75757", '9': "75716",
	' ': "00000", '.': "00002", ',': "00024", ':': "02020", ';': "02024", '!': "22202", '?': "61202",
	'\'': "22000", '"': "55000", '-': "00700", '_': "00007", '+': "02720", '*': "05250", '/': "11244",
	'\\': "44211", '(': "12221", ')': "42224", '[': "32223", ']': "62226", '{': "32623", '}': "62326",
	'<': "12421", '>': "42124", '=': "07070", '#': "57575", '%': "51245", '&': "25256", '@': "25743",
	'$': "36236", '|': "22222", '^': "25000", '~': "03600", '`': "42000",
}

// unknownLetter is a box, for characters that have no letter.
const unknownLetter = "75557"

// drawText draws lines of text in a colour of the picture's palette, each pixel
// of a letter scale pixels wide.
func drawText(picture *image.Paletted, x, y, scale int, lines []string, colour uint8) {
	for row, line := range lines {
		at := x
		for _, r := range line {
			drawLetter(picture, at, y+row*letterHeight*scale, scale, r, colour)
			at += letterWidth * scale
		}
	}
}

func drawLetter(picture *image.Paletted, x, y, scale int, r rune, colour uint8) {
	rows, found := letters[unicode.ToUpper(r)]
	if !found {
		rows = unknownLetter
	}
	for row := range len(rows) {
		for column := range 3 {
			if (rows[row]-'0')>>(2-column)&1 == 1 {
				fillBox(picture, x+column*scale, y+row*scale, scale, scale, colour)
			}
		}
	}
}

func fillBox(picture *image.Paletted, x, y, width, height int, colour uint8) {
	box := image.Rect(x, y, x+width, y+height).Intersect(picture.Rect)
	for row := box.Min.Y; row < box.Max.Y; row++ {
		from := picture.PixOffset(box.Min.X, row)
		pixels := picture.Pix[from : from+box.Dx()]
		for i := range pixels {
			pixels[i] = colour
		}
	}
}

// wrap breaks a text into lines of at most so many characters, between words
// where it can.
func wrap(text string, width int) []string {
	var lines []string
	line := []rune{}
	for word := range strings.FieldsSeq(text) {
		letters := []rune(word)
		if len(line) > 0 && len(line)+1+len(letters) > width {
			lines, line = append(lines, string(line)), line[:0]
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		for line = append(line, letters...); len(line) > width; line = line[width:] {
			lines = append(lines, string(line[:width]))
		}
	}
	if len(line) > 0 {
		lines = append(lines, string(line))
	}
	return lines
}
