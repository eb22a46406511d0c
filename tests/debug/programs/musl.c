/* Thread-local variables of a program, of a library that is linked, and of one that is loaded. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

__thread int own = 5;
__thread int zero;

#ifdef LIBRARY
__thread int filler[100];
__thread int of_library = 17;
int *change_of_library(int by)
{
    filler[3]++;
    of_library += by;
    return &of_library;
}
#else
int *own_address, *zero_address, *library_address;
static int *(*change_of_library)(int);

__attribute__((noinline)) static void in_thread(int number)
{
    own += number;
    zero = -number;
    own_address = &own;
    zero_address = &zero;
    if (change_of_library)
        library_address = change_of_library(number);
}

__attribute__((noinline)) static void changed(void) {}

static void *work(void *number)
{
    in_thread(*(int *)number);
    changed();
    return NULL;
}

int main(int argc, char **argv)
{
    int number = 40;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library)
        change_of_library = (int *(*)(int))dlsym(library, "change_of_library");
    pthread_t thread;
    in_thread(1);
    changed();
    if (pthread_create(&thread, NULL, work, &number) != 0)
        return 1;
    pthread_join(thread, NULL);
    printf("%d\n", own);
    return 0;
}
#endif
