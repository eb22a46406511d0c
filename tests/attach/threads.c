// Threads that compute, one that waits for a futex and one that sleeps: each is found with its own registers and its own memory, and they end
// as threads do (the kernel clears a word, for which others wait).
#include "found.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int done;
static unsigned long total;
static __thread double own = 1.25;

static void *compute(void *arg) {
    unsigned long sum = (unsigned long)arg;
    own *= sum;
    while (!is_found()) {
        for (int i = 0; i < 100000; i++) {
            sum = sum * 6364136223846793005UL + 1442695040888963407UL;
            own = own * 1.0000001 + 1e-9;
        }
        pthread_mutex_lock(&lock);
        total += sum;
        pthread_mutex_unlock(&lock);
    }
    printf("%lu: %.17g\n", (unsigned long)arg, own);
    pthread_mutex_lock(&lock);
    done++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *await(void *arg) {
    pthread_mutex_lock(&lock);
    while (done < 2) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    printf("has waited\n");
    return arg;
}

static void *slumber(void *arg) {
    while (!is_found()) usleep(50000);
    return arg;
}

int main(int argc, char **argv) {
    pthread_t threads[4];
    void *(*const bodies[4])(void *) = {compute, compute, await, slumber};
    setvbuf(stdout, NULL, _IONBF, 0);
    go = argv[1];
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, bodies[i], (void *)(i + 1));
    begin(argc, argv);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("total %lx\n", total);
    return 3;
}
