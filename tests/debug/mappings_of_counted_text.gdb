# Text that counts is another file's: the program has its own there, and from where on is said as it was.
# program: threads.c
tbreak work
continue
info proc mappings
#> ~ 0x1000 +0x1000 +r-xp +.*threads
#> ~ 0x[1-9a-f][0-9a-f]* +r-xp +.*libc
