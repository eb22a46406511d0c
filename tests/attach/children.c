// Memory that it shares with a child of its own, which is born when it is recorded; and a program that it executes then.
#include "found.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

int main(int argc, char **argv) {
    volatile int *shared = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[5000] = 41;
    char *copied = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(copied, "copied");
    begin(argc, argv);
    while (!is_found()) usleep(1000);
    printf("%d\n", shared[5000]);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        shared[5000]++;
        printf("%s %d\n", copied, shared[5000]);
        fflush(stdout);
        execl("/bin/sh", "sh", "-c", "echo executed; exit 4", NULL);
        return 1;
    }
    int status;
    waitpid(child, &status, 0);
    printf("%d %d\n", shared[5000], WEXITSTATUS(status));
    return 0;
}
