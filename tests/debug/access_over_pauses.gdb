# A word that is watched for reads, too, in a program whose threads were stopped in the middle of loops of millions of
# rounds: where that was is found by the program itself. (An addition reads the word, and is told of once.)
# program: watched_pauses.c
awatch milestones
continue
#> New value = 1
continue
#> New value = 2
continue
#> New value = 3
continue
#> New value = 4
continue
#> New value = 5
continue
#> New value = 6
reverse-continue
#> Old value = 6
#> New value = 5
reverse-continue
#> New value = 4
print milestones
#> = 4
reverse-continue
#> New value = 3
