/* A pool of threads works off jobs. At the end, fewer are done than there were. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

#define WORKERS 4
#define JOBS 20000L

struct pool {
    pthread_mutex_t lock;
    long taken; /* by all workers; under the lock */
    long done;
};

static struct pool pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static long take_job(void)
{
    pthread_mutex_lock(&pool.lock);
    long job = pool.taken < JOBS ? ++pool.taken : 0;
    pthread_mutex_unlock(&pool.lock);
    return job;
}

static long work_off(long job)
{
    long sum = 0;
    for (long i = 0; i < job % 32; i++)
        sum += i * job;
    return sum;
}

static void *worker(void *sum)
{
    long job;
    while ((job = take_job()) != 0) {
        *(long *)sum += work_off(job);
        pool.done++;
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[WORKERS];
    long sums[WORKERS * 8] = {0};
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, worker, &sums[8 * i]);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld of %ld jobs are done\n", pool.done, pool.taken);
    assert(pool.done == pool.taken);
    return 0;
}
