#!/bin/bash
# make -j4 with a job server, over forty rules.
# needs: make gcc
# varies: the order of what runs in parallel
# setup
for i in $(seq 20); do echo "int f$i(void) { return $i; }" > f$i.c; done
printf 'int main(void) { return 0; }\n' > main.c
printf 'O = $(patsubst %%.c,%%.o,$(wildcard *.c))\nprog: $(O)\n\tgcc -o $@ $^\n%%.o: %%.c\n\tgcc -c -o $@ $<\n' > Makefile
# record
make -j4 && ./prog
# check
test -x prog
