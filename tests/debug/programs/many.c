/* Loads the same library under many names, and once in a namespace of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define MANY 30

static int (*answer)(int);

static void loaded(int number)
{
    (void)number;
}

int main(int argc, char **argv)
{
    char name[64];
    for (int i = 0; i < MANY; i++) {
        FILE *from = argc > 1 ? fopen(argv[1], "r") : NULL;
        snprintf(name, sizeof name, "./copy_%d.so", i);
        FILE *to = fopen(name, "w");
        if (!from || !to)
            return 1;
        for (int c; (c = getc(from)) != EOF;)
            putc(c, to);
        fclose(from);
        fclose(to);
        void *library = dlopen(name, RTLD_NOW);
        if (!library)
            return 2;
        answer = (int (*)(int))dlsym(library, "plugin_answer");
        if (answer(i) != 2 * i)
            return 3;
        if (i == MANY / 2)
            dlclose(library);
        loaded(i);
    }
    void *other = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
    if (!other)
        return 4;
    answer = (int (*)(int))dlsym(other, "plugin_answer");
    printf("%d\n", answer(21));
    return 0;
}
