/* A child by vfork, which executes this program once more. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int in_child(void)
{
    return (int)write(1, "child\n", 6) - 6;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return in_child();
    if (vfork() == 0) {
        execl(argv[0], argv[0], "child", (char *)NULL);
        _exit(1);
    }
    int status;
    return wait(&status) < 0 || status != 0;
}
