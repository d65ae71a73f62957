# test_doc: R with Rmpi: objects, vectors and collectives from R code, alternately as master and workers that are handed
# tasks and as equals; garbage collection meanwhile.
#
# Arguments: steps and rows of a matrix. Rank 0 prints.
suppressMessages(library(Rmpi))
args <- commandArgs(trailingOnly = TRUE)
steps <- if (length(args) > 0) as.integer(args[1]) else 100
rows <- if (length(args) > 1) as.integer(args[2]) else 120
rank <- mpi.comm.rank(0)
size <- mpi.comm.size(0)
invisible(mpi.comm.dup(0, 5))

task <- function(step, k) {
  m <- outer(seq_len(rows), seq_len(rows), function(i, j) 1 / (i + j + step %% 7 + k))
  diag(m) <- diag(m) + 1
  list(k = k, value = sum(solve(m, rep(1, rows))), name = paste("task", step, k))
}

# master hands out tasks and takes their results in whatever order they come.
master <- function(step) {
  found <- numeric(3 * size)
  if (rank == 0) {
    nexttask <- 1
    busy <- 0
    for (w in seq_len(size - 1)) {
      mpi.send.Robj(nexttask, w, 1, comm = 5)
      nexttask <- nexttask + 1
      busy <- busy + 1
    }
    while (busy > 0) {
      r <- mpi.recv.Robj(mpi.any.source(), 2, comm = 5)
      from <- mpi.get.sourcetag()[1]
      found[r$k] <- r$value
      if (nexttask <= length(found)) {
        mpi.send.Robj(nexttask, from, 1, comm = 5)
        nexttask <- nexttask + 1
      } else {
        mpi.send.Robj(0, from, 1, comm = 5)
        busy <- busy - 1
      }
    }
  } else {
    repeat {
      k <- mpi.recv.Robj(0, 1, comm = 5)
      if (k == 0) break
      mpi.send.Robj(task(step, k), 0, 2, comm = 5)
    }
  }
  sum(found)
}

state <- as.double(rank + seq_len(1000))
for (step in seq_len(steps)) {
  work <- master(step)
  mine <- sum(sin(state) * step)
  all <- mpi.allreduce(mine, type = 2, op = "sum", comm = 5)
  parts <- mpi.allgather(mine, 2, numeric(size), comm = 5)
  told <- list(step = step, work = work)
  if (rank == 0) mpi.bcast.Robj(told, rank = 0, comm = 5) else told <- mpi.bcast.Robj(rank = 0, comm = 5)
  state <- (state + told$work + all) %% 100
  if (rank == 0) {
    cat(sprintf("result %d %.15e %.15e %.15e\n", step, work, all, sum(parts^2)))
    flush(stdout())
  }
}
mpi.quit()
