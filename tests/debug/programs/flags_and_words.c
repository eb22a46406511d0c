/* A loop that writes four words in turn and stores its flags, while a timer's signals stop it anywhere. */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

volatile long one, two, three, four, ticks, flags;

static void on_tick(int sig)
{
    (void)sig;
    ticks++;
}

static void write_words(long round)
{
    if (round % 100 == 40)
        one = round;
    if (round % 100 == 50)
        two = round;
    if (round % 100 == 60)
        three = round;
    if (round % 100 == 70)
        four = round;
}

int main(void)
{
    struct itimerval often = {{0, 100000}, {0, 100000}};
    signal(SIGALRM, on_tick);
    setitimer(ITIMER_REAL, &often, NULL);
    puts("begin");
    for (long round = 0; round < 300 || ticks < 2; round++) {
        long now;
        __asm__ volatile("pushf; pop %0" : "=r"(now));
        flags = now;
        write_words(round);
    }
    puts("end");
    return 0;
}
