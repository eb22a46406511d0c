# Steps back from some steps behind a watchpoint, with a long loop in front of it; and searches behind steps.
# program: long.c
tbreak spin
continue
stepi 20
reverse-stepi 20
print phase
#> = 1
watch phase
continue
#> New value = 2
stepi 10
reverse-stepi
reverse-stepi 10
print phase
#> = 1
