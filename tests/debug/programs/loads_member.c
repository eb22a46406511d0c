/* Loads a library, and has a member and a variable with names that the library has, too. */
#include <dlfcn.h>
#include <stdio.h>

struct {
    int plugin_calls;
} counts;

static void loaded(void) {}

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library)
        return 1;
    loaded();
    int (*answer)(int) = (int (*)(int))dlsym(library, "plugin_answer");
    for (int i = 0; i < 4; i++) {
        answer(21);
        counts.plugin_calls++;
    }
    printf("%d\n", counts.plugin_calls);
    return 0;
}
