/* Instructions that repeat themselves fill and copy much memory, of which little is on the page of a word that changes
   before and after. */
enum { MUCH = 48 << 20 };

static struct {
    char before[3900];
    char name[100];
    char rest[MUCH];
} all __attribute__((aligned(4096)));
static char copy[MUCH];

__attribute__((noinline)) static void fill(void *to, char with, unsigned long count)
{
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(with) : "memory");
}

__attribute__((noinline)) static void copy_back(void *to, const void *from, unsigned long count)
{
    to = (char *)to + count - 1;
    from = (const char *)from + count - 1;
    __asm__ volatile("std\n\trep movsb\n\tcld" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
}

int main(void)
{
    all.name[0] = 'f';
    all.name[1] = 'i';
    fill(all.rest, 1, MUCH);
    all.name[0] = 'F';
    copy_back(copy, all.rest, MUCH);
    copy_back(all.rest, copy, MUCH);
    all.name[0] = 'f';
    return all.rest[17] != 1;
}
