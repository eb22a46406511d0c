# A pool of two processes, each of which computes.
import multiprocessing


def work(number):
    return number * number


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(sum(pool.map(work, range(10))))
