package settings

import (
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// Plan is the values that decide what happens. Those that have no effect here are in it as well: Table says which they are.
type Plan struct {
	Enable bool
	Debug  int
	Places
	Caching
	Copying
	Restarting
	Pace
	Ending
	Launching
	Checking
	Descriptors
}

// Places are where things lie.
type Places struct {
	Prefix    string // absolute
	CacheBase string
	CntlBase  string
}

// Caching is what nodes keep.
type Caching struct {
	CacheSize  int    // so many datasets, where no line STORE says otherwise: see Pick.Count
	Bypass     bool   // files are in the prefix at once, where no line CKPT says otherwise
	BypassSet  bool   // by the user, the program or the system's file
	CachePurge bool   // at the beginning
	CopyType   string // SINGLE, PARTNER, XOR, or FILE: what lines CKPT say
	// CopyTypeSet: by the user, the program or the system's file; else it is what byssus run does.
	CopyTypeSet bool
	SetSize     int // nodes that protect each other, at least, or as many as there are
	SetSizeSet  bool
	Group       string // what fails together: NODE, or a name of lines GROUPS
}

// Copying is what comes to the prefix.
type Copying struct {
	Flush         int  // every so many checkpoints one is copied; 0: none, but outputs
	FlushAsync    bool // false: an output is in the prefix when it is complete
	FlushAsyncSet bool // somebody has set it; else it is true
	PrefixSize    int  // so many checkpoints stay; 0: all
	PrefixPurge   bool // at the beginning
}

// Restarting is what programs begin with. What GlobalRestart implies is in it.
type Restarting struct {
	Distribute       bool // caches are looked at, and what is lost is made again
	Fetch            bool // from the prefix, if the caches do not have it
	FetchBypass      bool // programs read in the prefix, not in caches
	FlushOnRestart   bool // the newest checkpoint of the caches is copied to the prefix
	GlobalRestart    bool // programs read in the prefix alone
	Current          string
	DropAfterCurrent bool
}

// Pace says when checkpoints are due; 0: that does not matter. If none does, they are due always.
type Pace struct {
	CheckpointInterval int     // calls of SCR_Need_checkpoint
	CheckpointSeconds  int     // since the last
	CheckpointOverhead float64 // percent of the time
}

// Ending says when programs are to end.
type Ending struct {
	HaltSeconds int   // so long before the end of the allocation
	HaltExit    bool  // calls end them
	EndTime     int64 // of the allocation, in seconds since 1970; 0: not said
}

// Launching is what SCR's launcher is told.
type Launching struct {
	Runs               int // -1: any number
	MinNodes           int
	ExcludeNodes       string // in Slurm's notation
	Watchdog           bool
	WatchdogTimeout    time.Duration // between checkpoints to caches; 0: not said
	WatchdogTimeoutPFS time.Duration // to the prefix
}

// Checking says when SCR compares checksums.
type Checking struct{ CRCOnCopy, CRCOnFlush, CRCOnDelete bool }

// plan makes the plan of what was settled.
func (r *resolver) plan() {
	b := func(name string) bool { return r.of(name).n != 0 }
	n := func(name string) int { return int(r.of(name).n) }
	s := func(name string) string { return r.of(name).text }
	t := func(name string) time.Duration { return time.Duration(r.of(name).n) * time.Second }
	set := func(name string) bool { return r.of(name).at.Source < RunOption }
	global := b("GLOBAL_RESTART")
	p := &r.s.plan
	*p = Plan{Enable: b("ENABLE"), Debug: n("DEBUG"),
		Places: Places{Prefix: s("PREFIX"), CacheBase: s("CACHE_BASE"), CntlBase: s("CNTL_BASE")},
		Caching: Caching{CacheSize: n("CACHE_SIZE"), Bypass: b("CACHE_BYPASS"), BypassSet: set("CACHE_BYPASS"), CachePurge: b("CACHE_PURGE"),
			CopyType: s("COPY_TYPE"), CopyTypeSet: set("COPY_TYPE"), SetSize: n("SET_SIZE"), SetSizeSet: r.of("SET_SIZE").at.Source != BuiltIn, Group: s("GROUP")},
		Copying: Copying{Flush: n("FLUSH"), FlushAsync: b("FLUSH_ASYNC"), FlushAsyncSet: set("FLUSH_ASYNC"),
			PrefixSize: n("PREFIX_SIZE"), PrefixPurge: b("PREFIX_PURGE")},
		Restarting: Restarting{Distribute: b("DISTRIBUTE"), Fetch: b("FETCH"), FetchBypass: b("FETCH_BYPASS") || global,
			FlushOnRestart: b("FLUSH_ON_RESTART") || global, GlobalRestart: global, Current: s("CURRENT"), DropAfterCurrent: b("DROP_AFTER_CURRENT")},
		Pace: Pace{CheckpointInterval: n("CHECKPOINT_INTERVAL"), CheckpointSeconds: n("CHECKPOINT_SECONDS"),
			CheckpointOverhead: r.of("CHECKPOINT_OVERHEAD").f},
		Ending: Ending{HaltSeconds: n("HALT_SECONDS"), HaltExit: b("HALT_EXIT"), EndTime: r.of("END_TIME").n},
		Launching: Launching{Runs: n("RUNS"), MinNodes: n("MIN_NODES"), ExcludeNodes: s("EXCLUDE_NODES"), Watchdog: b("WATCHDOG"),
			WatchdogTimeout: t("WATCHDOG_TIMEOUT"), WatchdogTimeoutPFS: t("WATCHDOG_TIMEOUT_PFS")},
		Checking: Checking{b("CRC_ON_COPY"), b("CRC_ON_FLUSH"), b("CRC_ON_DELETE")},
	}
	r.describe()
}

// schemeOf is what a word for redundancy means; FILE, which is none by itself, counts as XOR.
func schemeOf(word string) redset.Scheme {
	switch word {
	case "SINGLE":
		return redset.Single
	case "PARTNER":
		return redset.Partner
	}
	return redset.XOR
}

// of is the value of a parameter, which the table has.
func (r *resolver) of(name string) value {
	v, ok := r.typed["SCR_"+name]
	if !ok {
		panic("settings: no parameter " + name) // a mistake of this package, which every test finds
	}
	return v
}
