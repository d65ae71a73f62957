package cli

import "strings"

// What --json prints, for the help of each verb. A test compares the names with those of the structures. Times that end
// in _ns are numbers of nanoseconds, others are RFC 3339; sizes are bytes; what has nothing to say is left out.

// withJSON is a verb's long help with a list of what it prints.
func withJSON(long, what, fields string) string {
	return long + "\n\nWith --json: " + what + `. Fields that end in _ns are nanoseconds, other times are
RFC 3339, sizes are bytes; a field that has nothing to say is left out.

` + strings.TrimSuffix(fields, "\n")
}

const jsonStatus = `    job, dir, app, pid        name, directory of checkpoints, command line, process of byssus
    mpi                       name (mpich or openmpi), mpirun, library, version
    mpi_says                  what the MPI in use says about itself
    running_ns                how long this byssus has run
    phase                     idle, starting, running, ending, gone, backoff (before a restart) or done
    ranks, connected          size of MPI_COMM_WORLD; ranks that answer
    restarted_from            number of the checkpoint that it goes on from
    checkpoints               numbers of those that are kept
    restarts_without_progress restarts without a checkpoint beyond the point of the death
    deaths_in_all             ends of ranks after which the job was started again, or will be
    now_taking, attempt       number of the checkpoint that is being taken; which try at it
    stage, stage_since_ns     of it: preparing, pausing, agreeing, stopping, writing or committing; since when of
                              running_ns
    detail                    what it waits for
    waiting_for, in_call      numbers of the ranks that it waits for; the MPI call in which others wait for them
    ending_because            why the job is ending
    last_checkpoint           as checkpoint --json prints it
    rank_status               for each rank, in order:
      pid                     its process
      phase                   starting, running, pending (a checkpoint is asked for), stopping, draining, writing,
                              reading, restoring or ended
      where                   computing, collective (inside one), waiting (for a message), holding (before a
                              collective, for a checkpoint) or initializing
      bytes_done, bytes_total of the image that is being written or read
      resident_added          memory that is resident because of Byssus
    nodes                     of a job on several; for each:
      node                    its name
      state, reason           awaited, computing, spare, lost, or absent (its agent has not come); why
      ranks                   that run there
      silent_ns               how long ago it said something
    plain                     true: byssus run --plain: ranks are those that have said that they run
    datasets                  of files that the program writes itself; for each:
      dataset, name, state, checkpoint, output, ranks, in_place, bytes, files, stored, cached, copying, stuck, bad, current
                              as byssus index --json prints them
`

const jsonEntry = `    dataset, name             its number; what the program calls it
    state                     writing (its ranks write), storing (they have written), or counts
    checkpoint, output        true: a program can restart from it; it is a result
    ranks                     that have written it
    in_place                  true: its files have been in the prefix from the beginning
    bytes, files              of its files: their size, their number
    stored, cached            true: it is in the prefix; in the caches of nodes
    copying, stuck            true: it is being copied to the prefix; it could not be
    bad                       true: a program could not read it, and is not offered it again
    current                   true: a program restarts from it
`

const jsonAdopted = `    dataset, name             its number; its name
    ranks, files              of how many ranks; how many files it has
`

const jsonHalt = `    reason                    it ends at its next checkpoint, and this is why
    checkpoints               after so many more
    before, after             times
    seconds                   how long before the end of the allocation, or before that time
`

const jsonResult = `    checkpoint                its number
    bytes                     of all files
    stall_ns                  how long the application stood still, the longest of all ranks
    took_ns                   from the request to the commit
    attempts                  how often the ranks were asked to come to a quiet point
    refusals                  what cannot be saved, one string for each
    error                     why there is no checkpoint; the exit code is 122 then
`

const jsonListed = `    job, state                its name; running, lost (its byssus died), stopped, finished, failed, damaged (nobody
                              can tell) or unusable (of another user, a link, or not to be read)
    checkpoint, path          its number, its directory; a job without any has one entry without a number
    manifest                  what the checkpoint consists of:
      format                  version of the manifest
      job, id, checkpoint     what it is of
      ranks, mpi, app         size of MPI_COMM_WORLD, the MPI's own words, the program
      time, bytes             of the commit; of all files
      files                   a list: name, size, header_crc32c (hexadecimal), rank, kind (left out: image)
      node, start, epoch, parity
                              only in the cache of a node: whose part it is, what wrote it, what it keeps for others
      meta                    the job as it was then, as job in show --json
    error                     what is wrong with the checkpoint
    job_error                 what is wrong with the job
    left_aside                true: the job has gone back behind it, and does not go forward to it by itself
    of_an_earlier_job         true: of a job that had this name before; this one does not go on from it
    newest_in_caches          number of a checkpoint that lies, or lay, only in the caches of the job's nodes
    dataset                   of files that the program writes itself, what is known of it: name, state, checkpoint,
                              output, ranks, in_place, bytes, files, stored, cached, copying, stuck, bad, current as
                              byssus index --json prints them
    label                     in the manifest of such a dataset: name, checkpoint, output, ranks, in_place
`

const jsonVerified = `    checkpoint                its number; left out where something beside the checkpoints is damaged
    scavenged                 the node from whose cache this part of it was copied; left out: it is the store's own
    name                      of a dataset of files: what the program calls it
    bytes                     of memory, or of files, that were read
    error                     the damage; left out: good
    damaged                   of a dataset of files: all places that are damaged
`

const jsonShown = `    state                     running, lost (its byssus died), stopped, finished, failed or damaged
    dir                       of the job
    running                   what the running job says, as ps --json prints it (ending_because: why it is ending)
    checkpoint                the manifest of the checkpoint, as in list --json
    error, job_error          what is wrong with the checkpoint, with the job
    of_an_earlier_job         numbers of checkpoints of a job that had this name before
    scavenged                 nodes whose caches were copied to the store, for the next restart to put together
    images                    for each file of the checkpoint:
      rank, part              whose, and which of the rank's files
      size, memory            of the file; of memory in it
      chunks, mappings        their numbers
      kernel, libc, mpi, byssus
                              versions that it was written under
    dataset                   of files, as byssus index --json prints it: state, checkpoint, output, in_place, bytes, stored,
                              cached, copying, stuck, bad, current
    parts                     what each rank has of it: rank, files, size
    halt                      when the job is to end early, as byssus halt --json prints it: reason, checkpoints, before,
                              after, seconds
    job                       the job:
      plain                   it is one of byssus run --plain
      outputs                 what is known of the datasets that its program writes:
        current, bad, run     the one that it restarts from; those that it could not read; how many programs began
        policy                what the settings of the last say: prefix, bypass, keep, flush, flush_wait, in_prefix;
                              every: calls, after_ns, overhead; restart: not_caches, not_prefix, in_prefix, flush, drop_after; kept
      name, id                of the job; id is in every image
      format                  version of job.json
      app, dir                command line, working directory
      ranks                   size of MPI_COMM_WORLD
      mpi, face               mpich or openmpi: run under last; linked against
      mpi_args                further arguments of mpirun
      every_ns, keep, retries, max_restarts, no_restart_from_start, silent_after_ns, wait_for_nodes_ns, fsync,
      lazy, policy, writers, grace_ns,
      refused, save_files
                              as given to run
      caches                  as given to run: dir, redundancy, set_size, flush, scavenge_ns, transport
      newest_in_caches        number of the newest checkpoint that the caches of its nodes have had
      home                    only in the cache of a node: the job's directory in its store
      auto_named              the name was made up
      state                   running, stopped, finished, failed or damaged
      exit                    exit code
      files                   of run --files: prefix, pattern, marker, quiet_ns, restart
      survivors               of run --survivors keep: who takes the place of a rank that has died, processes or spares
      left_aside              checkpoints that it has gone back behind: it goes on from them only when asked to
      started, ended          when
`

const jsonTimeline = `
With --timeline --json: a list of the events, as docs/format/timeline.md explains them:

    time, event               when; which
    term, since_ns            which byssus of the job this is, counted from 1; since it began
    start                     of ranks: its number, the term times 65536 and a count
    checkpoint, attempt       its number; which try at it
    dataset, name             of files that the program writes itself: its number, what it is called
    by                        who asks for it: timer, request, signal or stop
    node, lost_ranks          where it happened, or which was lost; the ranks that are lost
    parts_of                  nodes whose parts are made again
    bytes, stall_ns, took_ns  of images; how long the ranks stood still; how long it took
    noticed_ns                how long after its last word that it is lost was noticed
    instead_of                what a node was unable to do: the event that would tell of it
    restart, mpi, ranks, nodes, spares
                              how the job was begun; the size of MPI_COMM_WORLD
    code, reason              exit code; why
    count                     of events that are missing here
`

const jsonConfig = `    settings                  for each setting:
      name, value, from       from: environment, FILE:LINE, SCR_Config, byssus run or built-in
      no_effect               why it has none, and what does it instead
    descriptors               lines of STORE, CKPT and GROUPS that hold: their names are as STORE=/ssd
    notes                     what there is to say:
      level                   hint, wrong (something else is used) or refused (a program that asks for it does not begin)
      about, text             the setting; a sentence
    user_file, system_file    where settings are looked for
`

const jsonVersion = `    byssus, go                version of byssus; of the Go that it was compiled by
    protocol, image           versions of the protocol to ranks, and of images
`

const jsonSandbox = `    name, dir                 its name; its directory
    state                     running, starting, or dead: its first process was killed
    nodes, spares             their numbers
    prefix                    the directory that the nodes share
    created                   when
`

const jsonNode = `    node, address             its name, in the sandbox's network
    group                     failure group: what fails together
    spare                     true: it stands by
    state                     up, frozen, cut, dead(kill) or dead(crash)
    cut                       true: its link is down
    rate                      bytes a second that its link passes, each way
    drop                      percent of the packets that its link loses, each way
    cpus                      its processors
`
