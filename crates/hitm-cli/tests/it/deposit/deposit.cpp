// Threads take one lock in a function that the compiler puts into its caller.
#include <mutex>
#include <thread>
#include <vector>

static std::mutex lock;

[[gnu::always_inline]] static inline void take()
{
	std::lock_guard<std::mutex> guard(lock);
}

[[gnu::noinline]] static void deposit()
{
	take();
}

int main()
{
	std::vector<std::thread> threads;

	for (int i = 0; i < 4; i++)
		threads.emplace_back([] {
			for (int n = 0; n < 3000; n++)
				deposit();
		});
	for (auto &thread : threads)
		thread.join();
}
