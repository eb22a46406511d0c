// Has a file mapped shared and writable, and for each line that it reads stores that line's first byte at the
// file's beginning. The page stays dirty, so only the first of these stores shows in the file's times.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

int main(int argc, char** argv) {
    int fd = open(argv[argc - 1], O_RDWR);
    char* bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return 1;
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        bytes[0] = line[0];
        puts("stored");
        fflush(stdout);
    }
    return 0;
}
