/* Loads a library and calls it. */
#include <dlfcn.h>
#include <stdio.h>

static void loaded(void) {}

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library)
        return 1;
    loaded();
    int (*answer)(int) = (int (*)(int))dlsym(library, "plugin_answer");
    printf("%d\n", answer(21));
    return 0;
}
