/* Ends by a signal. */
#include <stdio.h>

struct node {
    struct node *next;
    int value;
};

struct node second = {NULL, 2};
struct node first = {&second, 1};

static int sum(struct node *node)
{
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        sum += node->value;
        node = node->next;
    }
    return sum;
}

int main(void)
{
    return sum(&first);
}
