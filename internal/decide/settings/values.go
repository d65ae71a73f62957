package settings

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
)

// value is a value that is understood.
type value struct {
	text string // in its plainest form
	n    int64
	f    float64
	at   Origin
}

// wanted says what values of a parameter are.
func (p *parameter) wanted() string {
	switch p.kind {
	case yesNo:
		return "0 or 1"
	case whole:
		return fmt.Sprintf("a whole number of at least %d", p.least)
	case size:
		return "a size, as 128K"
	case seconds:
		return "a whole number of seconds"
	case percent:
		return "percent, 0 to 100"
	case directory:
		return "an absolute path"
	case word:
		last := len(p.words) - 1
		return strings.Join(p.words[:last], ", ") + " or " + p.words[last]
	}
	return "text"
}

// parse understands a value, or says what is wanted.
func (p *parameter) parse(s, dir string) (v value, wanted string) {
	v.text = s
	ok := true
	switch p.kind {
	case yesNo, whole, seconds:
		v.n, ok = integer(s)
		ok = ok && (p.kind == yesNo || v.n >= p.least)
		if p.kind == yesNo && v.n != 0 {
			v.n = 1
		}
		v.text = strconv.FormatInt(v.n, 10)
	case size:
		v.n, ok = bytes(s)
	case percent:
		var err error
		v.f, err = strconv.ParseFloat(s, 64)
		ok = err == nil && v.f >= 0 && v.f <= 100
	case directory:
		v.text, ok = join(dir, s), s != ""
		if p.name != "SCR_PREFIX" && p.name != "SCR_CONF_FILE" && p.name != "SCR_CONFIG_FILE" { // those may be below the working directory
			ok = ok && path.IsAbs(s)
		}
	case word:
		ok = false
		for _, w := range p.words {
			if strings.EqualFold(s, w) {
				v.text, ok = w, true
			}
		}
	}
	if !ok {
		return value{}, p.wanted()
	}
	return v, ""
}

// join is a path, from a directory if it does not begin at the root.
func join(dir, p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(dir, p)
}

// integer understands a whole number of 32 bits.
func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimPrefix(s, "+"), 10, 32)
	return n, err == nil && !strings.HasPrefix(s, "+-")
}

// bytes understands a size as SCR does: a number, a unit of k, m, g, t, p or e, which are powers of 1024, and b, in any case.
func bytes(s string) (int64, bool) {
	end := len(s)
	if end > 1 && (s[end-1] == 'b' || s[end-1] == 'B') && !('0' <= s[end-2] && s[end-2] <= '9') {
		end--
	}
	factor := 1.0
	if end > 0 {
		if i := strings.IndexByte("kmgtpe", s[end-1]|0x20); i >= 0 {
			end--
			factor = math.Pow(1024, float64(i+1))
		}
	}
	f, err := strconv.ParseFloat(s[:end], 64)
	f *= factor
	if err != nil || !(f >= 0 && f < math.MaxInt64) {
		return 0, false
	}
	return int64(f), true
}
