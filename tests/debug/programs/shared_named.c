// Two programs map the same memory by its name: one answers what the other has written.
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static volatile int *word;

static volatile int *map(const char *name, int flags) {
    int fd = shm_open(name, O_RDWR | flags, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        return NULL;
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static void await(int value) {
    while (*word != value)
        usleep(300);
}

__attribute__((noinline)) void told(int value) {
    *word = value;
}

__attribute__((noinline)) void answer(void) {
    *word = 8;
}

static int child(const char *name) {
    word = map(name, 0);
    if (word == NULL)
        return 1;
    await(7);
    answer();
    await(9);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3)
        return child(argv[2]);
    char name[64];
    snprintf(name, sizeof name, "/bis-shared-named-%d", (int)getpid());
    word = map(name, O_CREAT | O_EXCL);
    if (word == NULL)
        return 1;
    char *args[] = {argv[0], "child", name, NULL};
    pid_t pid;
    if (posix_spawn(&pid, argv[0], NULL, NULL, args, environ) != 0)
        return 1;
    *word = 7;
    told(*word);
    await(8);
    told(*word);
    *word = 9;
    int status;
    waitpid(pid, &status, 0);
    shm_unlink(name);
    printf("told %d\n", *word);
    return status != 0;
}
