/* A display with which its client wants to share segments of memory: natively it does, and sees what the server stores
 * there at any time. In a recording the server cannot attach them, whichever call has asked it to, and the client is told
 * so. What else is sent is not changed. */
#define _GNU_SOURCE
#include "desktop.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* The number that a server has given its extension MIT-SHM, and two of its requests. */
enum { EXTENSION = 130, ATTACH = 1, DETACH = 2 };

struct request {
    uint8_t extension, kind;
    uint16_t words;
    uint32_t name, segment, read_only;
};

/* An abstract name, as X servers have besides that of a file; the test's folder makes it ours alone. */
static struct sockaddr_un display(const char *folder, socklen_t *len)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    unsigned sum = 1;
    for (; *folder; folder++)
        sum = sum * 31 + (unsigned char)*folder;
    int n = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "/tmp/.X11-unix/X%u", sum);
    *len = offsetof(struct sockaddr_un, sun_path) + 1 + n;
    return address;
}

static void answer(int client)
{
    struct request request;
    volatile unsigned *segment = NULL;
    while (recv(client, &request, sizeof request, MSG_WAITALL) == sizeof request) {
        char told = 'n';
        if (request.extension == EXTENSION && request.kind == ATTACH) {
            void *at = shmat((int)request.segment, NULL, 0);
            if (at != (void *)-1) {
                segment = at;
                told = 'y';
            }
        }
        if (request.extension == EXTENSION && request.kind == DETACH) {
            CHECK(segment);
            for (int i = 0; i < 200; i++) {
                *segment += 1;
                usleep(100);
            }
            shmdt((void *)segment);
            told = 'd';
        }
        if (request.extension == 'd')
            told = request.segment == 0x01020304 ? 's' : 'c';
        CHECK(write(client, &told, 1) == 1);
    }
    close(client);
}

static void serve(const char *folder)
{
    socklen_t len;
    struct sockaddr_un address = display(folder, &len);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (void *)&address, len) == 0 && listen(listener, 5) == 0);
    ready();
    for (;;)
        answer(accept(listener, NULL, NULL));
}

static ssize_t send_by(int way, int server, struct request *request)
{
    /* As libraries do: the request's head is not where the rest of it is. */
    struct iovec pieces[] = {{request, 8}, {NULL, 0}, {(char *)request + 8, 8}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 3};
    switch (way) {
    case 0: return writev(server, pieces, 3);
    case 1: return sendmsg(server, &message, MSG_NOSIGNAL);
    case 2: return write(server, request, sizeof *request);
    default: return sendto(server, request, sizeof *request, 0, NULL, 0);
    }
}

static char ask(int way, int server, struct request request)
{
    struct request before = request;
    char told;
    CHECK(send_by(way, server, &request) == sizeof request);
    CHECK(memcmp(&before, &request, sizeof request) == 0);
    CHECK(read(server, &told, 1) == 1);
    return told;
}

static void use(const char *folder, int recorded)
{
    socklen_t len;
    struct sockaddr_un address = display(folder, &len);
    for (int way = 0; way < 4; way++) {
        int server = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(connect(server, (void *)&address, len) == 0);
        int copy = dup(server);
        int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
        volatile unsigned *segment = shmat(id, NULL, 0);
        CHECK(segment != (void *)-1);
        /* Data that looks like it, and is about no segment. */
        CHECK(ask(way, server, (struct request){'d', 0, 4, 1, 0x01020304, 0}) == 's');
        CHECK(ask(way, server, (struct request){EXTENSION, 7, 4, 1, (uint32_t)id, 0}) == 'n');
        char told = ask(way, way % 2 ? copy : server, (struct request){EXTENSION, ATTACH, 4, 1, (uint32_t)id, 0});
        CHECK(told == (recorded ? 'n' : 'y'));
        if (told == 'y') {
            struct request detach = {EXTENSION, DETACH, 4, 1, 0, 0};
            CHECK(write(server, &detach, sizeof detach) == sizeof detach);
            unsigned seen = 0;
            for (int i = 0; i < 100; i++, usleep(100))
                seen += *segment != 0;
            CHECK(seen > 0 && read(server, &told, 1) == 1);
        }
        printf("way %d: %u\n", way, *segment);
        shmctl(id, IPC_RMID, NULL);
        close(server);
        close(copy);
    }
}
