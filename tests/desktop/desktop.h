/* What a program shares with a server of its desktop. Each file here is both: `serve FOLDER` is the server, which is not
 * recorded, says `ready`, and goes on for ever; `native FOLDER` is its client without bis, and `recorded FOLDER` the same
 * in a recording. A client says what it has seen, and its status is 0 if that is as it should be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static void serve(const char *folder);
static void use(const char *folder, int recorded);

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    if (strcmp(argv[1], "serve") == 0) {
        serve(argv[2]);
        return 1;
    }
    use(argv[2], strcmp(argv[1], "recorded") == 0);
    return 0;
}

static void ready(void)
{
    puts("ready");
    fflush(stdout);
}
