# A watchpoint on a program whose threads were stopped in the middle of loops of a few bytes: what counts rounds there
# stays out of the way of what finds those places.
# program: tight_pauses.c
watch milestones
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
