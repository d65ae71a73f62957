package flaky

import (
	"os"
	"testing"
)

// TestOnce fails, and passes when it is run again.
func TestOnce(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		file := os.Getenv("FLAKY_FILE")
		if _, err := os.Stat(file); err == nil {
			return
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Error("the first time is the wrong time")
	})
}

// TestAlways fails always, if it is told to.
func TestAlways(t *testing.T) {
	if os.Getenv("FLAKY_ALWAYS") != "" {
		t.Error("always wrong")
	}
}

func TestSkips(t *testing.T) { t.Skip("SKIP: nothing to do") }
