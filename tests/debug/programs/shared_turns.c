// A parent and its child share an anonymous page; they wait for their turns before the functions that change it.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct page {
    volatile int turn;
    volatile int parents;
    volatile int childs;
};

struct page *page;

static void await(int turn) {
    while (page->turn != turn)
        usleep(200);
}

__attribute__((noinline)) void by_parent(int i) {
    page->parents = 10 * (i + 1) + page->childs;
    page->turn = 2 * i + 1;
}

__attribute__((noinline)) void by_child(int i) {
    page->childs = page->parents + 1;
    page->turn = 2 * i + 2;
}

int main(void) {
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 3; i++) {
            await(2 * i + 1);
            by_child(i);
        }
        _exit(0);
    }
    for (int i = 0; i < 3; i++) {
        await(2 * i);
        by_parent(i);
    }
    int status;
    waitpid(child, &status, 0);
    printf("parents %d childs %d\n", page->parents, page->childs);
    return status != 0;
}
