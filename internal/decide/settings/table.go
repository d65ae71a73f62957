package settings

import "slices"

// kind is what values of a parameter are.
type kind int

const (
	yesNo     kind = iota // 0 or 1; other numbers count as 1, as with SCR
	whole                 // a whole number
	size                  // bytes, as 128K, 1.5MB, 2g
	seconds               // a whole number of seconds
	percent               // of the run time
	directory             // a path
	word                  // one of some words, in any case
	text                  // any
)

// parameter is a row of the table: what SCR documents, and what becomes of it here.
type parameter struct {
	name    string
	kind    kind
	builtin string
	does    string            // what it says
	instead string            // why it has no effect here, and what does it instead; empty: it has
	least   int64             // of numbers
	words   []string          // of a word
	refused map[string]string // values that cannot be had, and why
	source  []Source          // where alone it is looked for; none: everywhere
	secret  bool              // its value is not shown
}

// only says whether a parameter is not looked for in this origin.
func (p *parameter) only(at Origin) bool {
	return len(p.source) > 0 && !slices.Contains(p.source, at.Source)
}

// Sentences that several parameters are answered with.
const (
	bySCRToo   = "SCR 3.1 reads it and does nothing with it, too"
	byAgents   = "agents choose how they copy, and do it beside the program"
	byTimeline = "what happened to a job is always logged: byssus show JOB --timeline"
	noDatabase = "there is no database: byssus show JOB --timeline --json prints the log for other programs"
	byChecks   = "every byte has a checksum, which is compared whenever it is read"
	byRS       = "it belongs to Reed-Solomon (SCR_COPY_TYPE=RS), which Byssus has not"
	byJob      = "byssus run --job names the job"
	byPattern  = "only SCR's own interposer reads it; programs that do not call SCR are kept by their memory instead, by byssus run as it is"
	noWatch    = "a program that hangs is not noticed: byssus ps shows what ranks wait for"
)

// notRS is why a scheme is refused.
const notRS = "Byssus has no Reed-Solomon code: XOR survives the loss of one node in each set, PARTNER keeps whole copies"

// early is where is looked for what must be known before files are read.
var early = []Source{Environment, Config}

// parameters is every parameter that SCR 3.1 documents or reads, with SCR's built-in values where nothing else is said. What
// begins to have an effect here loses its sentence; then go test ./internal/decide/settings -run TestPage -update.
var parameters = []parameter{
	{name: "SCR_ENABLE", kind: yesNo, builtin: "1", does: "0: SCR_Init fails, and nothing is kept"},
	{name: "SCR_DEBUG", kind: whole, builtin: "0", does: "how much is told, from 0", instead: byTimeline},
	{name: "SCR_CONF_FILE", kind: directory, does: "the user's file, instead of .scrconf in the prefix", source: early},
	{name: "SCR_CONFIG_FILE", kind: directory, builtin: "/etc/scr.conf", does: "the system's file; with SCR it is an option of its build", source: []Source{Environment}},

	{name: "SCR_PREFIX", kind: directory, does: "the directory on the parallel file system below which datasets are; built-in: the working directory"},
	{name: "SCR_PREFIX_SIZE", kind: whole, builtin: "0", does: "so many checkpoints stay in the prefix; 0: all. Outputs stay"},
	{name: "SCR_PREFIX_PURGE", kind: yesNo, builtin: "0", does: "1: SCR_Init deletes all datasets of the prefix; not when the program is started again by itself"},
	{name: "SCR_CNTL_BASE", kind: directory, builtin: "/dev/shm", does: "where control data are", instead: "control data are in agents and in their run directories"},
	{name: "SCR_CACHE_BASE", kind: directory, builtin: "/dev/shm", does: "where nodes keep datasets", instead: "byssus run --cache says where; without it there are no caches"},
	{name: "SCR_CACHE_SIZE", kind: whole, builtin: "1", does: "so many checkpoints stay in the cache, and one at least"},
	{name: "SCR_CACHE_BYPASS", kind: yesNo, builtin: "1", does: "1: files are in the prefix at once, not in caches. `byssus run --cache` implies 0"},
	{name: "SCR_CACHE_PURGE", kind: yesNo, builtin: "0", does: "1: SCR_Init deletes all datasets of the caches; not when the program is started again by itself"},
	{name: "SCR_CURRENT", kind: text, does: "name of the checkpoint that the first program of a run restarts from"},
	{name: "SCR_DROP_AFTER_CURRENT", kind: yesNo, builtin: "0", does: "1: SCR_Current, and SCR_CURRENT, have all later datasets forgotten; their files stay"},

	{name: "SCR_COPY_TYPE", kind: word, builtin: "XOR", words: []string{"SINGLE", "PARTNER", "XOR", "RS", "FILE"}, refused: map[string]string{"RS": notRS},
		does: "what caches do against the loss of nodes; FILE: as lines CKPT say"},
	{name: "SCR_SET_SIZE", kind: whole, builtin: "8", least: 2, does: "nodes that protect each other, at least, or as many as there are"},
	{name: "SCR_SET_FAILURES", kind: whole, builtin: "2", least: 1, does: "how many of a set may be lost", instead: byRS},
	{name: "SCR_GROUP", kind: text, builtin: "NODE", does: "what fails together: NODE, or a name of lines GROUPS"},
	{name: "SCR_MPI_BUF_SIZE", kind: size, builtin: "1M", does: "bytes of a message", instead: "nothing goes by MPI: agents send in pieces of their own"},
	{name: "SCR_FILE_BUF_SIZE", kind: size, builtin: "32M", does: "bytes of a copy's buffer", instead: byAgents},
	{name: "SCR_COPY_METADATA", kind: yesNo, builtin: "1", does: "copies have the file's mode and times", instead: "mode and time of change are always kept"},
	{name: "SCR_AXL_MKDIR", kind: yesNo, builtin: "0", does: "who makes directories", instead: byAgents},
	{name: "SCR_HOP_DISTANCE", kind: whole, builtin: "1", least: 1, does: "how far the partner is", instead: "SCR 3.1 does not read it either: lines GROUPS, or byssus run --groups, say what fails together"},

	{name: "SCR_DISTRIBUTE", kind: yesNo, builtin: "1", does: "0: SCR_Init does not make anything again from caches"},
	{name: "SCR_FETCH", kind: yesNo, builtin: "1", does: "0: SCR_Init fetches nothing from the prefix"},
	{name: "SCR_FETCH_BYPASS", kind: yesNo, builtin: "0", does: "1: programs restart from files of the prefix"},
	{name: "SCR_FETCH_WIDTH", kind: whole, builtin: "256", least: 1, does: "how many processes fetch", instead: bySCRToo},
	{name: "SCR_FETCH_TYPE", kind: word, builtin: "SYNC", words: transfers, does: "how is fetched", instead: "SCR 3.1 does not read it either: " + byAgents},
	{name: "SCR_FLUSH", kind: whole, builtin: "10", does: "every so many checkpoints one is copied to the prefix; 0: none. Outputs always are"},
	{name: "SCR_FLUSH_ASYNC", kind: yesNo, builtin: "1", does: "0: SCR_Complete_output returns when the copy is in the prefix, if there is one. With SCR 0 is built in"},
	{name: "SCR_FLUSH_TYPE", kind: word, builtin: "SYNC", words: transfers, does: "how is copied", instead: byAgents},
	{name: "SCR_FLUSH_WIDTH", kind: whole, builtin: "256", least: 1, does: "how many processes copy", instead: bySCRToo},
	{name: "SCR_FLUSH_POSTSTAGE", kind: yesNo, builtin: "0", does: "1: copies end after the program", instead: "SCR_Finalize waits for all copies"},
	{name: "SCR_FLUSH_ON_RESTART", kind: yesNo, builtin: "0", does: "1: SCR_Init copies the newest checkpoint to the prefix"},
	{name: "SCR_FLUSH_ASYNC_BW", kind: size, builtin: "200M", does: "bytes a second of copies", instead: bySCRToo},
	{name: "SCR_FLUSH_ASYNC_PERCENT", kind: percent, builtin: "0", does: "processor time of copies", instead: bySCRToo},
	{name: "SCR_FLUSH_ASYNC_USLEEP", kind: whole, builtin: "1000", does: "microseconds between looks at a copy", instead: "nobody looks: agents tell when a copy is done"},
	{name: "SCR_GLOBAL_RESTART", kind: yesNo, builtin: "0", does: "1: programs restart from the prefix, to which SCR_Init copies; implies SCR_FLUSH_ON_RESTART and SCR_FETCH_BYPASS"},

	{name: "SCR_CHECKPOINT_INTERVAL", kind: whole, builtin: "0", does: "SCR_Need_checkpoint says yes every so many calls"},
	{name: "SCR_CHECKPOINT_SECONDS", kind: seconds, builtin: "0", does: "SCR_Need_checkpoint says yes so long after the last checkpoint"},
	{name: "SCR_CHECKPOINT_OVERHEAD", kind: percent, builtin: "0", does: "SCR_Need_checkpoint says yes when checkpoints have taken less of the time, in percent"},
	{name: "SCR_HALT_SECONDS", kind: seconds, builtin: "0", does: "so long before the allocation ends, the job is to end; 0: it is not told"},
	{name: "SCR_HALT_EXIT", kind: yesNo, builtin: "0", does: "1: SCR_Init, and the completion of a checkpoint, end a program that is to end"},
	{name: "SCR_END_TIME", kind: whole, does: "when the allocation ends, in seconds since 1970; not said: as Slurm says"},

	{name: "SCR_RUNS", kind: whole, builtin: "1", least: -1, does: "how often scr_run starts the program; -1: any number",
		instead: "only scr_run reads it, from the environment; byssus run has --retries and --max-restarts"},
	{name: "SCR_MIN_NODES", kind: whole, least: 1, does: "how many nodes a program needs",
		instead: "only scr_should_exit reads it, from the environment; a job goes on while its ranks fit on the nodes that are left: byssus run --spares, --wait-for-nodes"},
	{name: "SCR_EXCLUDE_NODES", kind: text, does: "nodes that are not used", instead: "byssus run --hosts says which are used"},
	{name: "SCR_NODELIST", kind: text, does: "nodes of the allocation", instead: "only scr_run and scr_should_exit read it, from the environment; byssus run has --hosts"},
	{name: "SCR_NODE_TESTS", kind: text, does: "how nodes are tested", instead: "agents are asked, and nodes that do not answer are left out"},
	{name: "SCR_NODE_TESTS_FILE", kind: directory, does: "how nodes are tested", instead: "agents are asked, and nodes that do not answer are left out"},
	{name: "SCR_WATCHDOG", kind: yesNo, builtin: "0", does: "1: programs that hang are ended", instead: noWatch},
	{name: "SCR_WATCHDOG_TIMEOUT", kind: seconds, does: "time between checkpoints to caches", instead: noWatch},
	{name: "SCR_WATCHDOG_TIMEOUT_PFS", kind: seconds, does: "time between checkpoints to the prefix", instead: noWatch},
	{name: "SCR_CHECKPOINT_PATTERN", kind: text, does: "files that the interposer routes", instead: byPattern},
	{name: "SCR_CHECKPOINT_PATTERN_TOKEN", kind: text, does: "what is between patterns", instead: byPattern},
	{name: "SCR_CHECKPOINT_DIR_PATTERN", kind: text, does: "directories that the interposer routes", instead: byPattern},

	{name: "SCR_USER_NAME", kind: text, does: "whose job it is", instead: "the kernel says whose it is"},
	{name: "SCR_JOB_ID", kind: text, does: "number of the allocation", instead: byJob},
	{name: "SCR_JOB_NAME", kind: text, does: "name in logs", instead: byJob},
	{name: "SCR_CLUSTER_NAME", kind: text, does: "name in logs", instead: byTimeline},
	{name: "SCR_LOG_ENABLE", kind: yesNo, builtin: "0", does: "1: logs are written", instead: byTimeline},
	{name: "SCR_LOG_TXT_ENABLE", kind: yesNo, builtin: "1", does: "1: a log in the prefix", instead: byTimeline},
	{name: "SCR_LOG_SYSLOG_ENABLE", kind: yesNo, builtin: "1", does: "1: the system's log", instead: byTimeline},
	{name: "SCR_LOG_SYSLOG_PREFIX", kind: text, builtin: "SCR", does: "how its lines begin", instead: byTimeline},
	{name: "SCR_LOG_SYSLOG_FACILITY", kind: text, builtin: "LOG_LOCAL7", does: "its facility", instead: byTimeline},
	{name: "SCR_LOG_SYSLOG_LEVEL", kind: text, builtin: "LOG_INFO", does: "its level", instead: byTimeline},
	{name: "SCR_LOG_DB_ENABLE", kind: yesNo, builtin: "0", does: "1: a log in a database", instead: noDatabase},
	{name: "SCR_LOG_DB_DEBUG", kind: yesNo, builtin: "0", does: "1: its statements are printed", instead: noDatabase},
	{name: "SCR_LOG_DB_HOST", kind: text, does: "its host", instead: noDatabase},
	{name: "SCR_LOG_DB_NAME", kind: text, does: "its name", instead: noDatabase},
	{name: "SCR_LOG_DB_USER", kind: text, does: "its user", instead: noDatabase},
	{name: "SCR_LOG_DB_PASS", kind: text, secret: true, does: "its password", instead: noDatabase},
	{name: "SCR_DB_ENABLE", kind: yesNo, builtin: "0", does: "older name of SCR_LOG_DB_ENABLE", instead: noDatabase},
	{name: "SCR_DB_HOST", kind: text, does: "older name of SCR_LOG_DB_HOST", instead: noDatabase},
	{name: "SCR_DB_NAME", kind: text, does: "older name of SCR_LOG_DB_NAME", instead: noDatabase},
	{name: "SCR_DB_USER", kind: text, does: "older name of SCR_LOG_DB_USER", instead: noDatabase},
	{name: "SCR_DB_PASS", kind: text, secret: true, does: "older name of SCR_LOG_DB_PASS", instead: noDatabase},

	{name: "SCR_CRC_ON_COPY", kind: yesNo, builtin: "0", does: "1: checksums when redundancy is made", instead: byChecks},
	{name: "SCR_CRC_ON_FLUSH", kind: yesNo, builtin: "1", does: "0: no checksums when files are copied", instead: byChecks},
	{name: "SCR_CRC_ON_DELETE", kind: yesNo, builtin: "0", does: "1: checksums are compared when files are deleted", instead: byChecks},
}

// transfers are how SCR moves files.
var transfers = []string{"SYNC", "PTHREAD", "BBAPI", "DATAWARP"}

// kinds are the names of lines that are no parameters; those that are false have no effect.
var kinds = map[string]bool{"STORE": true, "CKPT": true, "GROUPS": true, "CNTLDIR": true, "CACHEDIR": true, "CACHE": true}

// find is the row of a parameter; nil: there is none.
func find(name string) *parameter {
	for i := range parameters {
		if parameters[i].name == name {
			return &parameters[i]
		}
	}
	return nil
}

// Row is a row of the table as the documentation shows it.
type Row struct{ Name, BuiltIn, Type, Does, NoEffect string }

// Table is the table as the documentation shows it, in its order.
func Table() []Row {
	var rows []Row
	for _, p := range parameters {
		rows = append(rows, Row{p.name, p.builtin, p.wanted(), p.does, p.instead})
	}
	return rows
}
