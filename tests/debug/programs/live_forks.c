/* A child that executes the same function as its parent, before and after it. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void both(int who)
{
    if (who == 0) {
        pid_t child = fork();
        if (child == 0) {
            both(1);
            _exit(5);
        }
        int status = 0;
        waitpid(child, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
    }
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    both(0);
    both(2);
    puts("end");
    return 0;
}
