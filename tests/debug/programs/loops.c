/* Words that are set behind loops, which are left behind one another. */
static volatile long word;
static volatile unsigned char table[1 << 16];

__attribute__((noinline)) static void set_word(long value)
{
    word = value;
}

__attribute__((noinline)) static unsigned work(long rounds)
{
    unsigned state = 1;
    for (long round = 0; round < rounds; round++) {
        state = state * 1103515245u + 12345u;
        table[state >> 16] += (unsigned char)state;
    }
    return state;
}

int main(void)
{
    for (long i = 0; i < 40; i++) {
        unsigned sum = work(2000000);
        sum ^= work(1000000);
        set_word(sum);
        set_word(i);
    }
    return 0;
}
