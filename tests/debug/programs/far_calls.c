/* A loop, a call that takes long and has loops of its own, and what comes behind it; again and again. */
static volatile long word, other;
static volatile unsigned char table[1 << 16];

__attribute__((noinline)) static long small(long n)
{
    return n * 3 + 1;
}

__attribute__((noinline)) static unsigned mix(unsigned state)
{
    return state * 1103515245u + 12345u;
}

__attribute__((noinline)) static unsigned far(long rounds)
{
    unsigned state = 1;
    for (long round = 0; round < rounds; round++) {
        state = mix(state);
        table[state >> 16] += (unsigned char)state;
    }
    return state;
}

__attribute__((noinline)) static void behind(long n)
{
    word = n;
}

int main(void)
{
    for (long i = 0; i < 6; i++) {
        for (long j = 0; j < 3000; j++)
            other = small(other);
        far(400000);
        other = i;
        behind(i);
    }
    return 0;
}
