package real

import (
	"os"
	"testing"

	"github.com/byssus-hpc/byssus/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.ShareMain(m, harness.Light)) }
