# Checkpoints: kept, listed, gone to, and forgotten.
# program: calls.c
break one
continue
checkpoint
#> Checkpoint 1 at one
continue 10
#> one (number=11)
checkpoint eleven
#> Checkpoint 2 at eleven
info checkpoints
#> ID
#> 1
#> one
#> 2
#> eleven
restart 1
print number
#> = 1
restart 2
print number
#> = 11
delete checkpoint 1
#> Deleted checkpoint 1.
restart 1
#> there is no checkpoint 1
restart 99
#> there is no checkpoint 99
restart
#> restart needs
restart x
#> ! Traceback
delete checkpoint 99
#> there is no checkpoint 99
print number
#> = 11
continue
#> one (number=12)
reverse-continue
#> one (number=11)
