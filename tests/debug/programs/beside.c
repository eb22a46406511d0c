#include <stdio.h>

struct record { int first; int mid[20]; int last; } record;

int main(void)
{
	record.first = 1;
	record.mid[3] = 2;
	record.last = 3;
	record.last = 4;
	printf("%d\n", record.first);
	return 0;
}
