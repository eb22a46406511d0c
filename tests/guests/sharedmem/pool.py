#!/usr/bin/python3
# python's multiprocessing over shared memory: a Value, an Array, a Lock, a shared block, a pool.
import multiprocessing as mp
from multiprocessing import shared_memory


def add(counter, array, me):
    for i in range(20):
        with counter.get_lock():
            counter.value += me
        array[i] += me


def square(x):
    return x * x


if __name__ == "__main__":
    mp.set_start_method("fork")
    counter, array = mp.Value("i", 0), mp.Array("i", 20, lock=True)
    workers = [mp.Process(target=add, args=(counter, array, n + 1)) for n in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
        assert w.exitcode == 0
    assert counter.value == 60, counter.value
    block = shared_memory.SharedMemory(create=True, size=100)
    block.buf[:5] = b"hello"
    print(block.name, [w.pid for w in workers], flush=True)
    block.close()
    block.unlink()
    with mp.Pool(2) as pool:
        assert pool.map(square, range(10)) == [x * x for x in range(10)]
    print("guest ok")
