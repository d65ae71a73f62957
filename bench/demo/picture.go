package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"slices"
)

// draw makes a PNG of what a wave program writes at its end: a line "wave ALONG DEEP", so many floats of the field, and the velocities
// there. Waves are lighter and darker than the layers, which are the darker the slower they are.
func draw(slice []byte, path string) error {
	var along, deep int
	head, rest, _ := bytes.Cut(slice, []byte("\n"))
	if _, err := fmt.Sscanf(string(head), "wave %d %d", &along, &deep); err != nil || len(rest) != 2*4*along*deep {
		return fmt.Errorf("picture: found %d bytes after %q, wanted a slice", len(rest), head)
	}
	values := make([]float32, 2*along*deep)
	if _, err := binary.Decode(rest, binary.LittleEndian, values); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	field, velocity := values[:along*deep], values[along*deep:]
	amplitudes := make([]float64, len(field))
	for i, v := range field {
		amplitudes[i] = math.Abs(float64(v))
	}
	slices.Sort(amplitudes)
	loud := max(amplitudes[len(amplitudes)*98/100], math.SmallestNonzeroFloat32)
	slow, fast := slices.Min(velocity), slices.Max(velocity)
	const scale = 2
	img := image.NewGray(image.Rect(0, 0, scale*along, scale*deep))
	for y := range scale * deep {
		for x := range scale * along {
			i := x/scale*deep + y/scale
			rock := 100 + 40*float64((velocity[i]-slow)/max(fast-slow, 1))
			img.SetGray(x, y, color.Gray{Y: uint8(min(max(rock+90*float64(field[i])/loud, 0), 255))})
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}
