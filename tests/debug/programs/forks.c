/* A child that changes what it has a copy of, and its parent, which waits for it. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int shared_name = 1;

static void in_child(void)
{
    shared_name = 2;
}

static void in_parent(void)
{
    shared_name = 3;
}

int main(int argc, char **argv)
{
    pid_t child = argc > 1 && strcmp(argv[1], "vfork") == 0 ? vfork() : fork();
    if (child == 0) {
        if (argc > 2)
            execl(argv[2], argv[2], NULL);
        in_child();
        _exit(4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    in_parent();
    printf("%d %d\n", shared_name, WIFEXITED(status));
    return 0;
}
