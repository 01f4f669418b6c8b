#include <mutex>
#include <thread>
#include <vector>
static std::mutex lock;
static long balance;
[[gnu::always_inline]] static inline void take(long amount)
{
	std::lock_guard<std::mutex> guard(lock);
	balance += amount;
}
[[gnu::noinline]] static void deposit(long amount) { take(amount); }
int main()
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back([] { for (int n = 0; n < 3000; n++) deposit(n); });
	for (auto &thread : threads)
		thread.join();
	return balance == 0;
}
