# until leaves a loop.
# program: data.c
tbreak fill
continue
#> for (int i = 0; i < 4; i++)
next
#> eight[i]
next
#> for (int i = 0; i < 4; i++)
until
#> for (int i = 0; i < 12; i++)
print eight[3]
#> = 3001
