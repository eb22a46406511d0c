/* It reads what cannot be compressed, without end, while another thread waits. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int ends[2];

static void *waits(void *unused)
{
    char byte;
    if (read(ends[0], &byte, 1) == 1)
        puts("it has come");
    return unused;
}

static long reads(const char *name)
{
    static char bytes[1 << 16];
    long count = 0;
    int fd = open(name, O_RDONLY);
    while (read(fd, bytes, sizeof bytes) > 0)
        count++;
    return count;
}

int main(void)
{
    pthread_t thread;
    if (pipe(ends) || pthread_create(&thread, NULL, waits, NULL))
        return 1;
    return (int)reads("/dev/urandom");
}
