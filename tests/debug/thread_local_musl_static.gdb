# Variables of threads in a program with musl, statically linked.
# program: musl.c
# cflags: -O0 -specs=/usr/lib/x86_64-linux-musl/musl-gcc.specs -static
# needs: musl-gcc
break changed
continue
print own
#> = 6
print zero
#> = -1
print &own == own_address && &zero == zero_address
#> = 1
continue
#> changed ()
print own
#> = 45
print zero
#> = -40
print &own == own_address && &zero == zero_address
#> = 1
thread 1
print own
#> = 6
reverse-continue
print own
#> = 6
