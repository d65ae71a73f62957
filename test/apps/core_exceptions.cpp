// test_doc: C++ exceptions, thread_local objects, std::thread and dlopen go on after a restart.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Guard {
	int &n;
	explicit Guard(int &x) : n(x) { ++n; }
	~Guard() { --n; }
};
static thread_local std::string mine = "fresh";

static int dive(int depth, int &live)
{
	Guard g(live);
	if (depth == 0) throw std::runtime_error("bottom");
	return dive(depth - 1, live) + 1;
}

static void work(int id, long ms, long *out)
{
	mine = "thread " + std::to_string(id);
	long caught = 0;
	int live = 0;
	std::map<int, std::string> m;
	auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
	while (std::chrono::steady_clock::now() < end || caught < 2000) {
		try {
			dive(20 + static_cast<int>(caught % 50), live);
		} catch (const std::exception &e) {
			caught++;
			m[static_cast<int>(caught % 100)] = e.what() + mine;
		}
		if (live != 0) break;
	}
	*out = live == 0 && m.size() == 100 && mine == "thread " + std::to_string(id) ? 1 : 0;
}

int main(int argc, char **argv)
{
	long ms = argc > 1 ? std::atol(argv[1]) : 900;
	std::vector<std::thread> t;
	long ok[6] = {};
	for (int i = 0; i < 6; i++) t.emplace_back(work, i, ms, &ok[i]);
	for (int i = 0; i < 100; i++) {
		void *h = dlopen("libm.so.6", RTLD_NOW);
		if (!h || !dlsym(h, "cos")) std::printf("wrong: dlopen\n");
		if (h) dlclose(h);
		std::this_thread::sleep_for(std::chrono::milliseconds(5));
	}
	for (auto &x : t) x.join();
	std::printf("%ld %ld %ld %ld %ld %ld\n", ok[0], ok[1], ok[2], ok[3], ok[4], ok[5]);
}
