/* Objects that are larger than what debug registers can watch, and who writes to them. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct record {
    char name[64];
    int numbers[32];
    struct record *next;
};

struct record record;
char *pages;
volatile long one, two, three, four, five, six;
volatile int seen;

static void begin(void) {}

static int by_stack(void)
{
    volatile int local[50];
    for (int i = 0; i < 50; i++)
        local[i] = i;
    int sum = 0;
    for (int i = 0; i < 50; i++)
        sum += local[i];
    local[49] = sum;
    return local[49];
}

int main(void)
{
    int ends[2];
    char maps[1 << 16];
    begin();
    record.numbers[31] = 1;
    strcpy(record.name, "by the program");
    seen = record.numbers[31];
    record.next = &record;
    if (pipe(ends) != 0 || write(ends[1], "by a call", 10) != 10 || read(ends[0], record.name, 64) != 10)
        return 1;
    one = 1, two = 2, three = 3, four = 4, five = 5, six = 6;
    four = 44, six = 66;
    int sum = by_stack();
    pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return 2;
    memset(pages, 'a', 3 * 4096);
    /* The program's own protections hold, and are what it is shown. */
    if (mprotect(pages, 4096, PROT_READ) != 0 || mprotect(pages, 4096, PROT_READ | PROT_WRITE) != 0)
        return 3;
    pages[0] = 'b';
    memcpy(pages + 4000, pages + 8192, 200);
    pages[4100] = 'c';
    int fd = open("/proc/self/maps", O_RDONLY);
    ssize_t len = 0, n;
    while ((n = read(fd, maps + len, sizeof maps - 1 - (size_t)len)) > 0)
        len += n;
    maps[len] = 0;
    char line[64];
    snprintf(line, sizeof line, "%lx", (unsigned long)&record & ~4095ul);
    printf("%d %s %d\n", sum, record.name, strstr(maps, line) != 0);
    return 0;
}
