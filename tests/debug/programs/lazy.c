/* Calls into libraries that are resolved when they are first made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int length;

static void measure(const char *text)
{
    length = (int)strlen(text);
    length += atoi("7");
}

int main(void)
{
    const char *name = getenv("HOME");
    measure(name ? "somewhere" : "nowhere");
    puts("measured");
    measure("again");
    return 0;
}
