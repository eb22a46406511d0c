/* Text that is made at run time where it may be written or executed, but never both. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef int function(void);

unsigned char *text;
int results[3];

static void written(int value)
{
    if (mprotect(text, 4096, PROT_READ | PROT_WRITE))
        return;
    /* mov $value, %eax; ret */
    text[0] = 0xb8;
    memcpy(text + 1, &value, sizeof value);
    text[5] = 0xc3;
    mprotect(text, 4096, PROT_READ | PROT_EXEC);
}

int main(void)
{
    text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (text == MAP_FAILED)
        return 1;
    for (int i = 0; i < 3; i++) {
        written(41 + i);
        results[i] = ((function *)text)();
    }
    printf("%d %d %d\n", results[0], results[1], results[2]);
    return 0;
}
