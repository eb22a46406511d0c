# A program that runs is changed where it stands; what it does then is done again from the log.
# program: live.c
# modes: live
# status: 7
break work
continue
#> begin
#> work (n=10)
checkpoint
#> Checkpoint 1
set var n = 4
print n
#> = 4
continue
#> round 1: 10
#> work (n=20)
set var total = 100
print total
#> = 100
rollback
print n
#> = 10
set var n = 5
#> What the program has done cannot be changed
continue
#> ! SIGTRAP
#> ! round
#> work (n=20)
print total
#> = 10
continue
#> round 2: 210
#> work (n=30)
print total
#> = 310
reverse-continue
#> work (n=20)
delete
continue
#> round 3: 465
#> end 775
