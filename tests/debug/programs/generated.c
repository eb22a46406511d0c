/* Text that is made at run time, and changed. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef int function(void);

unsigned char *text;
int results[2];

static void written(int value)
{
    /* mov $value, %eax; ret */
    text[0] = 0xb8;
    memcpy(text + 1, &value, sizeof value);
    text[5] = 0xc3;
}

int main(void)
{
    text = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (text == MAP_FAILED)
        return 1;
    for (int i = 0; i < 2; i++) {
        written(41 + i);
        results[i] = ((function *)text)();
    }
    printf("%d %d\n", results[0], results[1]);
    return 0;
}
