// Maps a file for itself alone, and says its first byte, its last one, and the sum of one byte of each page.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(int argc, char** argv) {
    for (int at = 1; at < argc; at++) {
        int fd = open(argv[at], O_RDONLY);
        struct stat stat;
        if (fd < 0 || fstat(fd, &stat)) return 1;
        unsigned char* bytes = mmap(NULL, stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) return 1;
        unsigned long sum = 0;
        for (long offset = 0; offset < stat.st_size; offset += 4096) sum += bytes[offset];
        printf("%c %c %lu\n", bytes[0], bytes[stat.st_size - 1], sum);
    }
    return 0;
}
