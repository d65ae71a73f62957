package sandbox

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are what may stand behind a number, with what they count.
type units map[string]float64

var sizes = units{"": 1, "b": 1, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30, "t": 1 << 40, "tib": 1 << 40}

// rates are those of tc(8), in bytes a second.
var rates = units{"bit": 0.125, "kbit": 125, "mbit": 125e3, "gbit": 125e6, "bps": 1, "kbps": 1e3, "mbps": 1e6, "gbps": 1e9}

// ParseSize reads a number of bytes: 1048576, 512M, 2GiB.
func ParseSize(text string) (int64, error) {
	n, ok := sizes.parse(text)
	if !ok || n < 1 || n > math.MaxInt64/2 {
		return 0, fmt.Errorf("sandbox: size %q: wanted a number with K, M, G or T, as 512M: %w", text, ErrOption)
	}
	return int64(n), nil
}

// ParseRate reads a bandwidth as tc(8) does: 10mbit, 1gbit; kbps, mbps and gbps are bytes.
func ParseRate(text string) (uint64, error) {
	n, ok := rates.parse(text)
	if !ok || n < minRate || n > maxRate {
		return 0, fmt.Errorf("sandbox: rate %q: wanted 8kbit to 100gbit, as 10mbit: %w", text, ErrOption)
	}
	return uint64(n), nil
}

const (
	minRate = 1e3
	maxRate = 12.5e9
)

// ParsePercent reads a share of packets.
func ParsePercent(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(n >= 0.01 && n <= 100) {
		return 0, fmt.Errorf("sandbox: percentage %q: wanted 0.01 to 100: %w", text, ErrOption)
	}
	return n, nil
}

// FormatRate writes a bandwidth as ParseRate reads it.
func FormatRate(rate uint64) string {
	bits := rate * 8
	for _, u := range []struct {
		unit string
		n    uint64
	}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}} {
		if bits >= u.n {
			return strconv.FormatFloat(float64(bits)/float64(u.n), 'f', -1, 64) + u.unit
		}
	}
	return fmt.Sprintf("%dbit", bits)
}

func (u units) parse(text string) (float64, bool) {
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.ParseFloat(text[:end], 64)
	unit, ok := u[strings.ToLower(text[end:])]
	return n * unit, err == nil && ok
}
