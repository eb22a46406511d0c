# Conditions that are false thirty million times, forwards and backwards.
# program: long.c
tbreak main
continue
break long.c:11 if spins == 18000000
continue
#> Breakpoint 2, spin
print spins
#> = 18000000
stepi
reverse-stepi
print spins
#> = 18000000
condition 2 spins == 33000000 || spins == 9000000
reverse-continue
#> Breakpoint 2
print spins
#> = 9000000
continue
#> Breakpoint 2
print spins
#> = 33000000
reverse-continue
#> Breakpoint 2
print spins
#> = 9000000
