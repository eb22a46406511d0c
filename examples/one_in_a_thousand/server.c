/* A server answers requests, and drops its greeting when nobody should be there any more. It crashes once in a thousand runs, or less. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct line {
    char text[32];
    int language;
};

static struct line *greeting;
static size_t sent;

static void answer(void)
{
    if (greeting == NULL)
        return;
    sent += strlen(greeting->text);
}

static void *serve(void *unused)
{
    (void)unused;
    for (int request = 0; request < 10; request++)
        answer();
    return NULL;
}

static void drop_greeting(void)
{
    struct line *old = greeting;
    greeting = NULL;
    free(old);
}

int main(void)
{
    greeting = calloc(1, sizeof *greeting);
    strcpy(greeting->text, "good morning");
    pthread_t thread;
    pthread_create(&thread, NULL, serve, NULL);
    usleep(2000); /* all requests have been answered by then */
    drop_greeting();
    pthread_join(thread, NULL);
    printf("%zu bytes were sent\n", sent);
    return 0;
}
