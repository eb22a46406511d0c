/* What another program executes. */
#include <stdio.h>

int others_own = 5;

int main(void)
{
    others_own++;
    printf("other %d\n", others_own);
    return 0;
}
