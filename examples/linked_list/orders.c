/* A shop's open orders are a linked list. The program crashes when it adds them up: one node points to nowhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct order {
    char customer[16];
    struct order *next;
    int cents;
};

static struct order *orders;

static struct order *add_order(const char *customer, int cents)
{
    struct order *order = malloc(sizeof *order);
    snprintf(order->customer, sizeof order->customer, "%s", customer);
    order->cents = cents;
    order->next = orders;
    orders = order;
    return order;
}

/* The customer has married. */
static void rename_customer(struct order *order, const char *name)
{
    size_t i;
    for (i = 0; name[i] != '\0'; i++)
        order->customer[i] = name[i];
    order->customer[i] = '\0';
}

static int total(void)
{
    int sum = 0;
    for (struct order *order = orders; order != NULL; order = order->next)
        sum += order->cents;
    return sum;
}

int main(void)
{
    char name[32];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "customer %d", i);
        struct order *order = add_order(name, 100 * i);
        if (i == 117)
            rename_customer(order, "Anna-Lena Vogelsang");
        if (i % 50 == 49)
            printf("%d orders\n", i + 1);
    }
    printf("total: %d\n", total());
    return 0;
}
