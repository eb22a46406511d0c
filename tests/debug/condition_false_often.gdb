# Conditions that are false a hundred million times, forwards and backwards.
# program: long.c
tbreak main
continue
break long.c:11 if spins == 60000000
continue
#> Breakpoint 2, spin
print spins
#> = 60000000
stepi
reverse-stepi
print spins
#> = 60000000
condition 2 spins == 100000000 || spins == 30000000
reverse-continue
#> Breakpoint 2
print spins
#> = 30000000
continue
#> Breakpoint 2
print spins
#> = 100000000
reverse-continue
#> Breakpoint 2
print spins
#> = 30000000
