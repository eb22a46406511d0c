// Found in a call that waits: the stop has interrupted it, and it is made again.
#include "found.h"

#include <poll.h>

int main(int argc, char **argv) {
    begin(argc, argv);
    int rounds = 0;
    while (!is_found()) {
        if (poll(NULL, 0, 300) != 0) return 1;
        rounds++;
    }
    printf("%s\n", rounds > 0 ? "slept" : "never slept");
    return 0;
}
