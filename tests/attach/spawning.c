// Threads and processes begin and end all the time while it is being found: what begins in that moment is found, too, or goes on by itself.
#include "found.h"

#include <pthread.h>
#include <sys/wait.h>

static unsigned long sum;

static void *brief(void *arg) {
    __atomic_add_fetch(&sum, (unsigned long)arg, __ATOMIC_RELAXED);
    return NULL;
}

static void *spawn(void *arg) {
    while (!is_found()) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, brief, arg) == 0) pthread_join(thread, NULL);
    }
    return NULL;
}

static void *divide(void *arg) {
    long children = 0;
    while (!is_found()) {
        pid_t child = fork();
        if (child == 0) _exit(9);
        int status;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 9) {
            printf("a child ended with %#x\n", status);
            exit(1);
        }
        children++;
    }
    *(long *)arg = children;
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[3];
    long children = 0;
    go = argv[1];
    pthread_create(&threads[0], NULL, spawn, (void *)3);
    pthread_create(&threads[1], NULL, spawn, (void *)5);
    pthread_create(&threads[2], NULL, divide, &children);
    begin(argc, argv);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("%s, %s\n", sum > 0 ? "threads" : "no threads", children > 0 ? "children" : "no children");
    return 0;
}
