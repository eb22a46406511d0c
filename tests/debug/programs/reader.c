/* System calls that write into the program's memory, and a bad descriptor. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

char buffer[16];
int status;

static void before(void) {}
static void after(void) {}

int main(void)
{
    int ends[2];
    before();
    if (pipe(ends) != 0)
        return 1;
    if (write(ends[1], "hello", 5) != 5)
        return 2;
    if (read(ends[0], buffer, 5) != 5)
        return 3;
    after();
    status = (int)read(-1, buffer, 1);
    int why = errno;
    pid_t parent = getppid();
    printf("%s %d %d\n", buffer, why, parent > 0);
    return 0;
}
