# Of many breakpoints that were hit and values that were written, the last come first.
# program: rounds.c
# modes: hooks no-hooks software
tbreak rounds.c:15
continue
print rounds
#> = 5000
break one_round
reverse-continue
#> one_round (number=5000)
print rounds
#> = 4999
reverse-continue
#> one_round (number=4999)
delete
watch rounds
reverse-continue
#> Old value = 4998
#> New value = 4997
reverse-continue
#> Old value = 4997
#> New value = 4996
reverse-finish
next
print rounds
#> = 4997
