/* test_doc: Boost.MPI: serialised objects in messages and collectives, isend and irecv of them, all_reduce with a function
 * object, skeleton and content, a split communicator.
 *
 * Particles wander between the ranks; maps of strings are reduced. Arguments: steps and particles of each rank. Rank 0
 * prints. */
#include <boost/mpi.hpp>
#include <boost/mpi/skeleton_and_content.hpp>
#include <boost/serialization/list.hpp>
#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <string>
#include <vector>

namespace mpi = boost::mpi;

struct particle {
	std::uint64_t id = 0;
	double x = 0, v = 0;
	std::string name;
	template <class A> void serialize(A &a, unsigned) { a & id & x & v & name; }
};

struct pair_sum {
	double a = 0, b = 0;
	template <class A> void serialize(A &ar, unsigned) { ar & a & b; }
};
BOOST_IS_MPI_DATATYPE(pair_sum)

struct add {
	pair_sum operator()(const pair_sum &x, const pair_sum &y) const { pair_sum s; s.a = x.a + y.a; s.b = std::max(x.b, y.b); return s; }
};
BOOST_IS_BITWISE_SERIALIZABLE(pair_sum)

using table = std::map<std::string, std::uint64_t>;

struct merge {
	table operator()(const table &x, const table &y) const
	{
		table all = x;
		for (const auto &e : y)
			all[e.first] += e.second;
		return all;
	}
};
namespace boost { namespace mpi {
template <> struct is_commutative<add, pair_sum> : mpl::true_ {};
}}

/* move lets the particles fly and hands those that leave this rank's unit interval to its neighbours. */
static void move(mpi::communicator &world, std::vector<particle> &mine, int step)
{
	std::list<particle> out[2];
	std::vector<particle> stay;
	for (auto &p : mine) {
		p.v += 0.01 * std::sin(3 * p.x + 0.1 * step);
		p.x += 0.05 * p.v;
		p.name = std::to_string(p.id * 7919 % 1000) + "/" + std::to_string(step % 7);
		if (p.x < 0)
			p.x += 1, out[0].push_back(p);
		else if (p.x >= 1)
			p.x -= 1, out[1].push_back(p);
		else
			stay.push_back(p);
	}
	int n = world.size(), left = (world.rank() + n - 1) % n, right = (world.rank() + 1) % n;
	std::list<particle> in[2];
	std::vector<mpi::request> q;
	q.push_back(world.irecv(left, 2 * step + 1, in[0]));
	q.push_back(world.irecv(right, 2 * step, in[1]));
	q.push_back(world.isend(left, 2 * step, out[0]));
	q.push_back(world.isend(right, 2 * step + 1, out[1]));
	mpi::wait_all(q.begin(), q.end());
	for (auto &list : in)
		stay.insert(stay.end(), list.begin(), list.end());
	std::sort(stay.begin(), stay.end(), [](const particle &a, const particle &b) { return a.id < b.id; });
	mine = std::move(stay);
}

/* content sends a field's values again and again through one skeleton. */
static double content(mpi::communicator &world, std::vector<double> &field, int step)
{
	if (world.rank() == 0) {
		for (std::size_t i = 0; i < field.size(); i++)
			field[i] = std::sin(0.1 * step + i);
		for (int r = 1; r < world.size(); r++)
			world.send(r, 30000, mpi::get_content(field));
	} else {
		world.recv(0, 30000, mpi::get_content(field));
	}
	double mine = 0;
	for (double v : field)
		mine += v * (world.rank() + 1);
	return mine;
}

int main(int argc, char **argv)
{
	mpi::environment env(argc, argv);
	mpi::communicator world, half = world.split(world.rank() % 2);
	int steps = argc > 1 ? std::atoi(argv[1]) : 300, count = argc > 2 ? std::atoi(argv[2]) : 3000;
	std::vector<particle> mine(count);
	for (int i = 0; i < count; i++) {
		mine[i].id = std::uint64_t(world.rank()) * count + i;
		mine[i].x = std::fmod(mine[i].id * 0.618033988749895, 1.0);
		mine[i].v = std::cos(double(mine[i].id));
	}
	std::vector<double> field(500);
	if (world.rank() == 0)
		for (int r = 1; r < world.size(); r++)
			world.send(r, 29999, mpi::skeleton(field));
	else
		world.recv(0, 29999, mpi::skeleton(field));
	for (int s = 1; s <= steps; s++) {
		move(world, mine, s);
		pair_sum sum;
		table names;
		for (const auto &p : mine) {
			sum.a += p.x * double(p.id % 97);
			sum.b = std::max(sum.b, p.v);
			names[p.name] += p.id * (p.x < 0.5 ? 1 : 3);
		}
		pair_sum all = mpi::all_reduce(world, sum, add());
		table whole = mpi::all_reduce(world, names, merge());
		double part = mpi::all_reduce(half, content(world, field, s), std::plus<double>()), most;
		std::vector<std::size_t> sizes;
		mpi::all_gather(world, mine.size(), sizes);
		mpi::reduce(world, part, most, mpi::maximum<double>(), 0);
		std::uint64_t h = 0;
		for (const auto &e : whole)
			h = h * 1099511628211u + e.second;
		if (world.rank() == 0) {
			std::printf("result %d %zu %zu %.15e %.15e %.15e %016llx\n", s, sizes[0], whole.size(), all.a, all.b, most, (unsigned long long)h);
			std::fflush(stdout);
		}
	}
	return 0;
}
