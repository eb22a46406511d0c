# A race: an update is lost. Back from the end: who wrote last, what that thread had read, and whose write it did not see.
# program: race.c
# until: fails
# replay: -e
print counter
#> = 20
watch counter
reverse-continue
#> Old value = 20
#> New value = 10
print seen
#> = 0
print amount
#> = 20
reverse-continue
#> Old value = 10
#> New value = 0
print seen
#> = 0
print amount
#> = 10
rwatch counter
reverse-continue
#> read watchpoint
#> add
reverse-continue
#> read watchpoint
#> add
