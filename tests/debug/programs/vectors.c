/* Values in vector and x87 registers. */
#include <stdio.h>

double scaled;
long double exact;

static double scale(double value)
{
    return value * 2.5;
}

int main(void)
{
    scaled = scale(4.0);
    exact = (long double)scaled / 4;
    printf("%g %Lg\n", scaled, exact);
    return 0;
}
