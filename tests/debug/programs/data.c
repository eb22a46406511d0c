/* Values of several kinds that change. */
#include <stdlib.h>
#include <unistd.h>

struct point {
    int x, y;
    struct point *next;
};

int global;
int untouched = 7;
struct point origin;
int four[1];
long long eight[4];
char bytes[12];

static int scope(int n)
{
    int local = n;
    local += 1;
    local *= 2;
    return local;
}

static void fill(void)
{
    for (int i = 0; i < 4; i++)
        eight[i] = 1000LL * i + 1;
    for (int i = 0; i < 12; i++)
        bytes[i] = (char)('a' + i);
    four[0] = 44;
}

static int look(void)
{
    return untouched + 1;
}

int main(void)
{
    struct point *heap = calloc(1, sizeof *heap);
    global = 1;
    global = 1;
    scope(4);
    global = look();
    fill();
    heap->x = 5;
    heap->y = 6;
    heap->next = &origin;
    heap->next->y = 9;
    global = 3;
    free(heap);
    return 0;
}
