/* The page in which dconf's service tells that settings have changed: it does so at any time. Natively the client sees
 * both, that they have and that they have not; in a recording it sees each time that they have, and asks. */
#define _GNU_SOURCE
#include "desktop.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int page_in(const char *folder, int flags)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/dconf", folder);
    mkdir(name, 0700);
    snprintf(name, sizeof name, "%s/dconf/user", folder);
    return open(name, flags, 0600);
}

static void serve(const char *folder)
{
    int page = page_in(folder, O_RDWR | O_CREAT);
    CHECK(pwrite(page, "", 1, 1) == 1);
    ready();
    for (char value = 0;; value = !value, usleep(700))
        CHECK(pwrite(page, &value, 1, 0) == 1);
}

static void use(const char *folder, int recorded)
{
    int seen[2] = {0, 0};
    for (int round = 0; round < 20; round++) {
        int page = page_in(folder, O_RDWR);
        CHECK(page >= 0);
        const volatile char *flag = mmap(NULL, 1, PROT_READ, MAP_SHARED, page, 0);
        CHECK(flag != MAP_FAILED);
        close(page);
        for (int i = 0; i < 20; i++, usleep(300))
            seen[*flag != 0]++;
        CHECK(munmap((void *)flag, 1) == 0);
    }
    CHECK(seen[1] > 0 && (recorded ? seen[0] == 0 : seen[0] > 0));
    printf("not changed %d times, changed %d times\n", seen[0], seen[1]);
}
