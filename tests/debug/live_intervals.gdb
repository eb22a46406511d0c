# Checkpoints that are made by themselves: after so many events. Those that are gone back to lead on as the
# others do.
# program: calls.c
# modes: live
set checkpoint-interval x
#> give it as SECONDS
show checkpoint-interval
#> off
set checkpoint-interval 50 events
show checkpoint-interval
#> 50 events
info checkpoints
#> No checkpoints.
break one if number == 150
continue
#> one (number=150)
info checkpoints
#> ID
#> ~ 1\t[0-9]+\tevent [0-9]+ .automatic.
#> ~ 2\t[0-9]+\tevent [0-9]+ .automatic.
#> ~ 3\t[0-9]+\tevent [0-9]+ .automatic.
rollback 2
print made > 0 && made < 150
#> = 1
set $made = made
discard 1
#> Deleted checkpoint 1.
rollback 3
print made > $made
#> = 1
continue
#> one (number=150)
set checkpoint-interval off
delete
continue
#> made
info checkpoints
#> 3
