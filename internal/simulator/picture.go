package simulator

import (
	"bytes"
	"image"
	"image/color"
	_ "image/gif"  // uploads may be GIF
	_ "image/jpeg" // or JPEG
	"image/png"
)

const (
	largestSide = 2048
	mostPixels  = 16 << 20 // of an upload
)

// colourOf derives a strong colour from a seed, on which white text is readable: one
// channel is high, one low and one anywhere in between.
func colourOf(seed uint64) color.RGBA {
	const high, low = 180, 40
	seed = mix(seed)
	between := uint8(low + seed%(high-low))
	switch seed >> 32 % 6 {
	case 0:
		return color.RGBA{high, between, low, 255}
	case 1:
		return color.RGBA{high, low, between, 255}
	case 2:
		return color.RGBA{between, high, low, 255}
	case 3:
		return color.RGBA{low, high, between, 255}
	case 4:
		return color.RGBA{between, low, high, 255}
	}
	return color.RGBA{low, between, high, 255}
}

// paint returns a PNG with a text on a background whose colour depends on the seed.
func paint(width, height int, text string, seed uint64) []byte {
	const ground, frame, ink = 0, 1, 2
	back := colourOf(seed)
	picture := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{
		back, color.RGBA{back.R / 2, back.G / 2, back.B / 2, 255}, color.White,
	})
	border := max(1, min(width, height)/64)
	fillBox(picture, 0, 0, width, height, frame)
	fillBox(picture, border, border, width-2*border, height-2*border, ground)
	lines, scale := fit(text, width-4*border, height-4*border)
	longest := 0
	for _, line := range lines {
		longest = max(longest, len([]rune(line)))
	}
	x := (width - longest*letterWidth*scale + scale) / 2
	y := (height - len(lines)*letterHeight*scale + scale) / 2
	drawText(picture, max(x, 0), max(y, 0), scale, lines, ink)
	return encodePNG(picture)
}

// fit breaks a text into lines and finds the largest scale at which they fit.
func fit(text string, width, height int) (lines []string, scale int) {
	for scale = max(1, width/(letterWidth*12)); ; scale-- {
		lines = wrap(text, max(1, width/(letterWidth*scale)))
		if scale == 1 || len(lines)*letterHeight*scale <= height {
			return lines, scale
		}
	}
}

// readPicture decodes an upload; ok is false if it is no picture or too large.
func readPicture(file *upload) (picture image.Image, ok bool) {
	config, _, err := image.DecodeConfig(bytes.NewReader(file.head))
	if err != nil || config.Width < 1 || config.Height < 1 || config.Width > mostPixels/config.Height {
		return nil, false
	}
	picture, _, err = image.Decode(bytes.NewReader(file.head))
	return picture, err == nil
}

// tint colours a picture, or only the transparent parts of a mask of the same size.
func tint(picture, mask image.Image, colour color.RGBA) []byte {
	bounds := picture.Bounds()
	out := image.NewNRGBA(image.Rect(0, 0, bounds.Dx(), bounds.Dy()))
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			pixel := color.NRGBAModel.Convert(picture.At(bounds.Min.X+x, bounds.Min.Y+y)).(color.NRGBA)
			if mask == nil || isClear(mask, x, y) {
				pixel.R = uint8((int(pixel.R) + int(colour.R)) / 2)
				pixel.G = uint8((int(pixel.G) + int(colour.G)) / 2)
				pixel.B = uint8((int(pixel.B) + int(colour.B)) / 2)
			}
			out.SetNRGBA(x, y, pixel)
		}
	}
	return encodePNG(out)
}

func isClear(mask image.Image, x, y int) bool {
	_, _, _, alpha := mask.At(mask.Bounds().Min.X+x, mask.Bounds().Min.Y+y).RGBA()
	return alpha < 0x8000
}

func encodePNG(picture image.Image) []byte {
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	_ = encoder.Encode(&out, picture) // fails only for sizes that were refused before
	return out.Bytes()
}
