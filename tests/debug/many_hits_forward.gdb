# A condition that holds once in many rounds, forwards and backwards; and ignore counts.
# program: rounds.c
break one_round if number == 4000
continue
#> one_round (number=4000)
condition 1 number == 1234
reverse-continue
#> one_round (number=1234)
print rounds
#> = 1233
condition 1
ignore 1 2000
continue
#> one_round (number=3235)
