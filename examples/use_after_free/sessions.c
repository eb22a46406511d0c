/* A server keeps sessions and messages. Now and then a session's user is nobody who has ever logged in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct session {
    long id;
    long user;
    struct session *peer;
};

struct message {
    long length;
    char *text;
    struct message *next;
};

static struct session *sessions[8];
static struct message *messages;

static struct session *log_in(long id, long user)
{
    struct session *session = malloc(sizeof *session);
    session->id = id;
    session->user = user;
    session->peer = NULL;
    sessions[id] = session;
    return session;
}

static void call(struct session *one, struct session *other)
{
    one->peer = other;
    other->peer = one;
}

static void log_out(struct session *session)
{
    sessions[session->id] = NULL;
    free(session);
}

static void send_message(const char *text)
{
    struct message *message = malloc(sizeof *message);
    message->text = strdup(text);
    message->length = (long)strlen(text);
    message->next = messages;
    messages = message;
}

static void bill(const struct session *session)
{
    if (session->peer == NULL)
        return;
    if (session->peer->user < 1000 || session->peer->user > 2000) {
        fprintf(stderr, "session %ld: its peer is user %ld?\n", session->id, session->peer->user);
        abort();
    }
}

int main(void)
{
    for (long id = 0; id < 8; id++)
        log_in(id, 1000 + id);
    call(sessions[2], sessions[5]);
    call(sessions[1], sessions[6]);
    send_message("good morning");
    log_out(sessions[5]);
    send_message("is anybody there?");
    send_message("hello?");
    for (long id = 0; id < 8; id++)
        if (sessions[id] != NULL)
            bill(sessions[id]);
    return 0;
}
