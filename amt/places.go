package amt

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"
)

// PlacesVariable says of how many elements of other ranks a rank remembers the places, for each collection; 1024 if it is not set. It is
// rounded up to a power of two. What is forgotten costs a message a hop, by the home of its element.
const PlacesVariable = "BYSSUS_AMT_PLACES"

const (
	defaultPlaces = 1 << 10
	mostPlaces    = 1 << 24
)

// remembered reads PlacesVariable.
func remembered() (int, error) {
	text := os.Getenv(PlacesVariable)
	if text == "" {
		return defaultPlaces, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostPlaces {
		return 0, fmt.Errorf("amt: %s=%s: a number of places is wanted, such as 1024: at least 1, at most %d", PlacesVariable, text, mostPlaces)
	}
	return 1 << bits.Len(uint(n-1)), nil
}
