/* test_doc: C++: exceptions thrown through several frames with destructors in a loop and in std::threads,
 * exception_ptr kept over iterations, iostreams, containers, std::function and virtual calls. */
#include "app.h"
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct wrong_turn : std::runtime_error {
	uint64_t where;
	wrong_turn(const std::string &what, uint64_t w) : std::runtime_error(what), where(w) {}
};

struct counted {
	long &n;
	explicit counted(long &counter) : n(counter) { n++; }
	~counted() { n--; }
	counted(const counted &) = delete;
};

struct shape {
	virtual ~shape() = default;
	virtual uint64_t area(uint64_t x) const = 0;
};
struct square : shape { uint64_t area(uint64_t x) const override { return x * x; } };
struct circle : shape { uint64_t area(uint64_t x) const override { return x * x * 3; } };

void descend(uint64_t key, int depth, long &alive)
{
	counted here(alive);
	std::vector<std::string> ballast(4, std::string(static_cast<size_t>(depth) * 10 + 1, 'x'));

	if (depth == 0)
		throw wrong_turn("end of the way " + std::to_string(key % 1000), key);
	try {
		descend(mix(key), depth - 1, alive);
	} catch (const std::logic_error &) {
		throw;              /* never: another class */
	}
}

uint64_t fall(uint64_t key, long &alive)
{
	try {
		descend(key, static_cast<int>(key % 12) + 1, alive);
	} catch (const wrong_turn &e) {
		return mix2(e.where, hash_bytes(e.what(), strlen(e.what())));
	}
	return 0;
}

/* The program's state that must outlive checkpoints. */
struct state {
	std::map<long, std::string> log;
	std::exception_ptr kept;
	std::vector<std::unique_ptr<shape>> shapes;
	std::function<uint64_t(uint64_t)> fold;
	uint64_t sum = 0;
};

uint64_t threaded(uint64_t key)
{
	uint64_t results[2] = { 0, 0 };
	long alive[2] = { 0, 0 };
	std::vector<std::thread> ts;

	for (size_t i = 0; i < 2; i++)
		ts.emplace_back([&, i] {
			for (uint64_t k = 0; k < 20; k++)
				results[i] = mix2(results[i], fall(key + 100 * i + k, alive[i]));
		});
	for (auto &t : ts)
		t.join();
	return alive[0] == 0 && alive[1] == 0 ? mix2(results[0], results[1]) : 0;
}

uint64_t step(app &a, state &s, long iter)
{
	uint64_t key = mix3(a.seed, static_cast<uint64_t>(iter), static_cast<uint64_t>(a.rank)), h = 0;
	long alive = 0;

	for (uint64_t i = 0; i < 50; i++)
		h = mix2(h, fall(key + i, alive));
	CHECK(&a, alive == 0, "%ld objects left behind by exceptions", alive);
	if (s.kept) {
		try {
			std::rethrow_exception(s.kept);
		} catch (const std::exception &e) {
			h = mix2(h, hash_bytes(e.what(), strlen(e.what())));
		}
	}
	try {
		s.log.at(iter);
	} catch (const std::out_of_range &) {
		s.kept = std::make_exception_ptr(wrong_turn("kept " + std::to_string(iter), key));
	}
	std::ostringstream text;
	text << "iteration " << iter << ' ' << std::hex << key << ' ' << std::fixed << 1.5 * static_cast<double>(iter);
	s.log[iter] = text.str();
	h = mix2(h, threaded(key));
	h = mix2(h, s.shapes[static_cast<size_t>(iter) % s.shapes.size()]->area(key));
	for (const auto &entry : s.log)
		h = mix2(h, hash_bytes(entry.second.data(), entry.second.size()));
	return s.fold(h);
}

} // namespace

int main(int argc, char **argv)
{
	app a;
	state s;

	app_begin(&a, argc, argv);
	s.shapes.push_back(std::make_unique<square>());
	s.shapes.push_back(std::make_unique<circle>());
	s.fold = [&s](uint64_t x) { return s.sum = mix2(s.sum, x); };
	for (long iter = 0; iter < a.iters; iter++) {
		uint64_t mine, all;
		app_progress(&a, iter);
		mine = step(a, s, iter);
		app_compute(&a, a.pace);
		MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
		app_result(&a, iter, "cxx", mix2(mine, all));
	}
	std::cout << "cxx_except: rank " << a.rank << " kept " << s.log.size() << " lines" << std::endl;
	return app_end(&a);
}
