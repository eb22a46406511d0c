# An image without hooks, or a recording without: what cpuid says of the core is not recorded, so a session is on the core of the recording.
# program: own_core.c
# cflags: -static -O0
break seen
continue
#> Breakpoint 1, seen
print told == recorded
#> = 1
set $then = told
reverse-stepi 20
print told == $then || told == 0
#> = 1
tbreak main
reverse-continue
#> main
print told
#> = 0
continue
#> Breakpoint 1, seen
print told == recorded
#> = 1
