/* The memory that a client of PulseAudio shares with its server cannot be made in a recording, in neither of its two ways;
 * memory with other names can. */
#define _GNU_SOURCE
#include "desktop.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static void serve(const char *folder)
{
    (void)folder;
    ready();
    for (;;)
        pause();
}

static void use(const char *folder, int recorded)
{
    (void)folder;
    int memory = memfd_create("pulseaudio", MFD_ALLOW_SEALING);
    CHECK(recorded ? memory == -1 && errno == ENOSYS : memory >= 0);
    char name[64];
    snprintf(name, sizeof name, "/pulse-shm-%d", getpid());
    int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(recorded ? file == -1 && errno == EACCES : file >= 0);
    shm_unlink(name);
    CHECK(memfd_create("pulseaudio-like", 0) >= 0);
    snprintf(name, sizeof name, "/pulse-%d", getpid());
    CHECK(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600) >= 0);
    CHECK(shm_unlink(name) == 0);
    puts("as expected");
}
