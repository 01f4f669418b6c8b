"""Two processes that count in neighbouring bytes of shared memory.

usage: shared_memory.py ITERATIONS
"""

import multiprocessing
import sys
from multiprocessing import shared_memory


def count(memory: shared_memory.SharedMemory, own: int, iterations: int) -> None:
    for _ in range(iterations):
        memory.buf[own] = (memory.buf[own] + 1) & 255


def main() -> None:
    memory = shared_memory.SharedMemory(create=True, size=4096)
    # The parent does not touch the memory, and the children have it by fork: its name may go at once.
    memory.unlink()
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=count, args=(memory, own, int(sys.argv[1]))) for own in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()


if __name__ == "__main__":
    main()
