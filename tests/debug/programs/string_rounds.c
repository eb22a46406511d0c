/* String instructions that go round two million times, and one that stops in the middle. */
#include <stddef.h>
#include <stdio.h>

#define MANY 2000000ul

static char bytes[MANY];
static char *found;
volatile int word;

int main(void)
{
    void *to = bytes;
    size_t left = MANY;
    __asm__ volatile("filling: rep stosb\nfilled: nop" : "+D"(to), "+c"(left) : "a"(7) : "memory");
    bytes[MANY - 5] = 1;
    found = bytes;
    left = MANY;
    __asm__ volatile("seeking: repne scasb\nsought: nop" : "+D"(found), "+c"(left) : "a"(1) : "memory", "cc");
    word = (int)left;
    printf("%d\n", word);
    return 0;
}
