! test_doc: communicators, groups and topologies in Fortran: each way to make one, what is asked of it, its name and info; some are made
! before the first iteration and used in each.
#include "forms.inc"

module seen
  integer :: got, sent, ends(32)
end module

subroutine fortran_part(iters) bind(C)
  USEMPI
  use help
  use seen
  implicit none
  INCMPI
  integer(c_int), intent(in) :: iters
  COMM :: comm, dup, cart, grid, graph, dist, half, kept, x, later
  GRP :: everyone, g, h, u
  INFO :: notes
  REQ :: rq
  integer :: ierr, rank, size, right, left, iter, i, k, n, m, result, dims(3), coords(2), ranks(16), others(16), range(3,1)
  integer :: degrees(16), edges(32), indegree, outdegree, source, dest, w(2), v(2), a(2), b(2)
  logical :: flag, periods(2), remain(2), back(2)
  character(len=MPI_MAX_OBJECT_NAME) :: name

  call MPI_Init(ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_rank(comm, rank, ierr)
  call MPI_Comm_size(comm, size, ierr)
  call app_set(rank, size)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  call lasting()
  do iter = 0, iters - 1
    call MPI_Comm_dup(comm, later, ierr)            ! MPI_Comm_idup is refused
    call app_step(iter)
    sent = rank
    call MPI_Allreduce(sent, got, 1, MPI_INTEGER, MPI_SUM, later, ierr)
    call check(got == size*(size - 1)/2, 'made before')
    call MPI_Comm_free(later, ierr)
    call communicators()
    call groups()
    call grids()
    call graphs()
  end do
  call app_over()
  call MPI_Finalize(ierr)
contains

subroutine lasting()
  call MPI_Comm_group(comm, everyone, ierr)
  call MPI_Comm_split(comm, mod(rank, 2), -rank, kept, ierr)
  call MPI_Comm_set_name(kept, '  every second  ', ierr)
  dims = 0
  dims(1) = size
  call MPI_Cart_create(comm, 2, (/ size, 1 /), (/ .true., .false. /), .false., cart, ierr)
  do i = 1, size                        ! each has the two beside it
    degrees(i) = 2*i
    edges(2*i-1) = mod(i + size - 2, size)
    edges(2*i) = mod(i, size)
  end do
  call MPI_Graph_create(comm, size, degrees, edges, .false., graph, ierr)
  call MPI_Dist_graph_create_adjacent(comm, 2, (/ left, right /), (/ 3, 4 /), 1, (/ right /), (/ 5 /), MPI_INFO_NULL, .false., &
      dist, ierr)
end subroutine

subroutine communicators()
  name = repeat('#', len(name))
  call MPI_Comm_get_name(kept, name, n, ierr)
  call check(adjustl(name) == 'every second', 'name')
  call MPI_Comm_get_name(MPI_COMM_WORLD, name, n, ierr)
  call check(name == 'MPI_COMM_WORLD' .and. n == 14, 'name of the world')
  call MPI_Comm_size(kept, n, ierr)
  call MPI_Comm_rank(kept, m, ierr)
  call check(n == (size + 1 - mod(rank, 2))/2 .and. m == n - 1 - rank/2, 'split with keys')
  call MPI_Allreduce(rank, got, 1, MPI_INTEGER, MPI_SUM, kept, ierr)
  call told(iter, 'kept', dble(got))
  call MPI_Comm_compare(comm, MPI_COMM_WORLD, result, ierr)
  call check(result == MPI_CONGRUENT, 'congruent')
  call MPI_Comm_compare(comm, comm, result, ierr)
  call check(result == MPI_IDENT, 'the same')
  call MPI_Comm_split(comm, 0, -rank, x, ierr)
  call MPI_Comm_compare(comm, x, result, ierr)
  call check(result == merge(MPI_SIMILAR, MPI_CONGRUENT, size > 1), 'similar')
  ! free with a message under way
  call MPI_Irecv(got, 1, MPI_INTEGER, MPI_ANY_SOURCE, 3, x, rq, ierr)
  call MPI_Comm_rank(x, m, ierr)
  call MPI_Send(iter, 1, MPI_INTEGER, mod(m + 1, size), 3, x, ierr)
  call MPI_Comm_free(x, ierr)
  call MPI_Wait(rq, MPI_STATUS_IGNORE, ierr)
  call check(got == iter .and. x == MPI_COMM_NULL, 'a message of a freed communicator')
  call MPI_Comm_compare(comm, MPI_COMM_SELF, result, ierr)
  call check(result == merge(MPI_UNEQUAL, MPI_CONGRUENT, size > 1), 'unequal')
  call MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, x, ierr)
  call MPI_Comm_size(x, n, ierr)
  call check(n == size, 'all on one node')
  call MPI_Comm_free(x, ierr)
  call MPI_Comm_split_type(comm, MPI_UNDEFINED, rank, MPI_INFO_NULL, x, ierr)
  call check(x == MPI_COMM_NULL, 'split_type of nothing')
  call MPI_Info_create(notes, ierr)
  call MPI_Info_set(notes, ' some key ', ' some value ', ierr)
  call MPI_Comm_dup_with_info(comm, notes, x, ierr)
  call MPI_Info_free(notes, ierr)
  call MPI_Comm_get_info(x, notes, ierr)
  call check(notes /= MPI_INFO_NULL, 'info of a communicator')
  call MPI_Info_free(notes, ierr)
  call MPI_Comm_free(x, ierr)
end subroutine

subroutine groups()
  ranks(1:2) = (/ size - 1, 0 /)
  call MPI_Group_incl(everyone, min(size, 2), ranks, g, ierr)
  call MPI_Group_rank(g, m, ierr)
  call check(m == merge(0, merge(1, MPI_UNDEFINED, rank == 0), rank == size - 1), 'rank in a group')
  call MPI_Group_excl(everyone, 1, (/ 0 /), h, ierr)
  call MPI_Group_size(h, n, ierr)
  call check(n == size - 1, 'excl')
  call MPI_Group_union(g, h, u, ierr)
  call MPI_Group_compare(u, everyone, result, ierr)
  call check(result == MPI_SIMILAR, 'union')
  call MPI_Group_free(u, ierr)
  call MPI_Group_intersection(g, h, u, ierr)
  call MPI_Group_size(u, n, ierr)
  call check(n == 1, 'intersection')
  call MPI_Group_free(u, ierr)
  call MPI_Group_difference(g, h, u, ierr)
  call MPI_Group_translate_ranks(u, 1, (/ 0 /), everyone, others, ierr)
  call check(others(1) == 0, 'difference')
  call MPI_Group_free(u, ierr)
  call check(u == MPI_GROUP_NULL, 'a freed group')
  call MPI_Group_translate_ranks(h, 2, (/ 0, MPI_PROC_NULL /), g, others, ierr)
  call check(others(1) == merge(0, MPI_UNDEFINED, size == 2) .and. others(2) == MPI_PROC_NULL, 'translate_ranks')
  range(:,1) = (/ size - 1, 0, -1 /)
  call MPI_Group_range_incl(everyone, 1, range, u, ierr)
  call MPI_Group_rank(u, m, ierr)
  call check(m == size - 1 - rank, 'range_incl')
  call MPI_Comm_create(comm, u, x, ierr)
  call MPI_Comm_rank(x, m, ierr)
  call check(m == size - 1 - rank, 'comm_create')
  call MPI_Comm_free(x, ierr)
  call MPI_Group_free(u, ierr)
  range(:,1) = (/ 0, size - 2, 1 /)
  call MPI_Group_range_excl(everyone, 1, range, u, ierr)
  call MPI_Group_compare(u, MPI_GROUP_EMPTY, result, ierr)
  call check(result == MPI_UNEQUAL, 'range_excl')
  call MPI_Group_free(u, ierr)
  call MPI_Comm_create(comm, g, x, ierr)
  call check((x == MPI_COMM_NULL) .eqv. (rank > 0 .and. rank < size - 1), 'comm_create of a part')
  if (x /= MPI_COMM_NULL) call MPI_Comm_free(x, ierr)
  if (rank > 0) then
    call MPI_Comm_create_group(comm, h, 17, x, ierr)
    call MPI_Allreduce(rank, got, 1, MPI_INTEGER, MPI_SUM, x, ierr)
    call check(got == size*(size - 1)/2, 'create_group')
    call MPI_Comm_free(x, ierr)
  end if
  call MPI_Group_free(g, ierr)
  call MPI_Group_free(h, ierr)
end subroutine

subroutine grids()
  call MPI_Topo_test(cart, k, ierr)
  call check(k == MPI_CART, 'topo_test')
  call MPI_Cartdim_get(cart, n, ierr)
  call MPI_Cart_get(cart, 2, a, back, coords, ierr)
  call check(n == 2 .and. all(a == (/ size, 1 /)) .and. back(1) .and. .not. back(2) .and. all(coords == (/ rank, 0 /)), 'cart_get')
  call MPI_Cart_shift(cart, 0, 1, source, dest, ierr)
  call check(source == left .and. dest == right, 'cart_shift')
  call MPI_Cart_shift(cart, 1, 1, source, dest, ierr)
  call check(source == MPI_PROC_NULL .and. dest == MPI_PROC_NULL, 'cart_shift over the edge')
  call MPI_Cart_rank(cart, (/ rank + size + 1, 0 /), m, ierr)
  call check(m == right, 'cart_rank')
  call MPI_Cart_coords(cart, left, 2, coords, ierr)
  call check(all(coords == (/ left, 0 /)), 'cart_coords')
  remain = (/ .true., .false. /)
  call MPI_Cart_sub(cart, remain, x, ierr)
  call MPI_Cart_get(x, 1, a, back, coords, ierr)
  call check(a(1) == size .and. back(1) .and. coords(1) == rank, 'cart_sub')
  call MPI_Comm_free(x, ierr)
  dims = (/ 0, 1, 0 /)
  call MPI_Dims_create(size, 3, dims, ierr)
  call check(product(dims) == size .and. dims(2) == 1, 'dims_create')
  periods = (/ .false., mod(iter, 2) == 0 /)
  call MPI_Cart_create(comm, 2, (/ dims(1), dims(3) /), periods, .false., grid, ierr)
  call MPI_Cart_get(grid, 2, a, back, coords, ierr)
  call check(.not. back(1) .and. (back(2) .eqv. periods(2)) .and. coords(1)*dims(3) + coords(2) == rank, 'a grid')
  call MPI_Comm_free(grid, ierr)
  call MPI_Cart_create(comm, 1, (/ size - 1 /), periods, .false., grid, ierr)
  call check((grid == MPI_COMM_NULL) .eqv. rank == size - 1, 'a grid without one')
  if (grid /= MPI_COMM_NULL) call MPI_Comm_free(grid, ierr)
end subroutine

subroutine graphs()
  call MPI_Graphdims_get(graph, n, m, ierr)
  call check(n == size .and. m == 2*size, 'graphdims_get')
  call MPI_Graph_get(graph, size, 2*size, others, ends, ierr)
  call check(all(others(1:size) == degrees(1:size)) .and. all(ends(1:2*size) == edges(1:2*size)), 'graph_get')
  call MPI_Graph_neighbors_count(graph, rank, n, ierr)
  call MPI_Graph_neighbors(graph, rank, 2, a, ierr)
  call check(n == 2 .and. all(a == (/ left, right /)), 'graph_neighbors')
  call MPI_Dist_graph_neighbors_count(dist, indegree, outdegree, flag, ierr)
  call check(indegree == 2 .and. outdegree == 1 .and. flag, 'neighbors_count')
  call MPI_Dist_graph_neighbors(dist, 2, a, w, 1, b, v, ierr)
  call check(all(a == (/ left, right /)) .and. all(w == (/ 3, 4 /)) .and. b(1) == right .and. v(1) == 5, 'neighbors with weights')
  call MPI_Dist_graph_create(comm, 1, (/ rank /), (/ 1 /), (/ right /), MPI_UNWEIGHTED, MPI_INFO_NULL, .false., x, ierr)
  call MPI_Dist_graph_neighbors_count(x, indegree, outdegree, flag, ierr)
  call check(indegree == 1 .and. outdegree == 1 .and. .not. flag, 'without weights')
  call MPI_Dist_graph_neighbors(x, 1, a, MPI_UNWEIGHTED, 1, b, MPI_UNWEIGHTED, ierr)
  call check(a(1) == left .and. b(1) == right, 'neighbors without weights')
  call MPI_Neighbor_allgather(rank, 1, MPI_INTEGER, got, 1, MPI_INTEGER, x, ierr)
  call check(got == left, 'neighbor_allgather')
  call MPI_Comm_free(x, ierr)
  n = merge(1, 0, rank == 0)            ! one edge in all, from 0 to the last
  m = merge(1, 0, rank == size - 1)
  if (n + m == 0) then
    call MPI_Dist_graph_create_adjacent(comm, 0, a, MPI_WEIGHTS_EMPTY, 0, b, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, .false., x, ierr)
  else
    a(1) = 0
    b(1) = size - 1
    w = 8
    call MPI_Dist_graph_create_adjacent(comm, m, a, w, n, b, w, MPI_INFO_NULL, .false., x, ierr)
  end if
  call MPI_Dist_graph_neighbors_count(x, indegree, outdegree, flag, ierr)
  call check(indegree == m .and. outdegree == n .and. flag, 'weights of nothing')
  call MPI_Comm_free(x, ierr)
end subroutine
end subroutine
