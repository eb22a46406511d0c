/* Functions to be called by hand: harmless ones, and all kinds of others. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct pair {
    long first, second, third;
};

int calls;
char word[16] = "word";
volatile int handled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int add(int a, int b)
{
    calls++;
    return a + b;
}

int outer(int a)
{
    int inner = add(a, 1);
    return inner * 10;
}

double half(double x)
{
    return x / 2;
}

struct pair triple(long x)
{
    struct pair all = {x, 2 * x, 3 * x};
    return all;
}

char *joined(const char *left, const char *right)
{
    char *all = malloc(strlen(left) + strlen(right) + 1);
    strcpy(all, left);
    return strcat(all, right);
}

char *grown(void)
{
    /* More than the heap has: brk, then mmap. */
    char *small = malloc(100000), *large = malloc(10 << 20);
    memset(large, 'g', 10 << 20);
    strcpy(small, large[(10 << 20) - 1] == 'g' ? "grown" : "wrong");
    free(large);
    return small;
}

int change_word(void)
{
    strcpy(word, "changed");
    return (int)strlen(word);
}

int crash(void)
{
    return *(volatile int *)8;
}

int forever(void)
{
    for (volatile long i = 0;; i++)
        calls = 77;
}

int locked(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock);
    return 1;
}

int who(void)
{
    return getpid() == handled;
}

int is_later(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_REALTIME, &now) == 0 && now.tv_sec > 1600000000;
}

int others(void)
{
    return open("/etc/passwd", 0) == -1 && fork() == -1 && calls > 0;
}

static void on_user(int number)
{
    handled = number;
    add(1, 1);
}

int main(void)
{
    for (int i = 1; i <= 3; i++)
        add(i, i);
    signal(SIGUSR1, on_user);
    raise(SIGUSR1);
    handled = getpid();
    printf("%d %s\n", calls, word);
    fflush(stdout);
    add(20, 30);
    outer(half(8) + triple(1).third);
    puts(joined("the ", "end"));
    return !(calls == 6);
}
