package simulator

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	_ "image/gif"  // uploads may be GIF
	_ "image/jpeg" // or JPEG
	"image/png"
)

const (
	largestSide = 2048
	mostPixels  = 16 << 20 // of an upload
)

// colourOf derives a strong colour from a seed: one channel is high, one low and one
// anywhere in between.
func colourOf(seed uint64) color.RGBA {
	const high, low = 180, 40
	seed = mix(seed)
	channels := [3]uint8{high, low, uint8(low + seed%(high-low))}
	order := [6][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}[seed>>32%6]
	return color.RGBA{channels[order[0]], channels[order[1]], channels[order[2]], 255}
}

// paint returns a PNG with a white frame on a ground with a colour that depends on the
// seed.
func paint(width, height int, seed uint64) []byte {
	bounds := image.Rect(0, 0, width, height)
	picture := image.NewPaletted(bounds, color.Palette{colourOf(seed), color.White})
	inset := min(width, height) / 4
	draw.Draw(picture, bounds.Inset(inset), image.White, image.Point{}, draw.Src)
	draw.Draw(picture, bounds.Inset(inset+inset/2), image.NewUniform(picture.Palette[0]), image.Point{}, draw.Src)
	return encodePNG(picture)
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
