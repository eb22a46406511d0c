# A program that runs: it goes on as far as gdb lets it, and back to a checkpoint; from there what it did is
# done again from the log, without a word, and then it goes on live. Each line of its output comes once.
# program: live.c
# modes: live
# status: 7
break main
continue
#> ! begin
#> main () at
next
#> puts
next
#> ! round
#> begin
#> for
break work
continue
#> ! round
#> work (n=10)
info args
#> n = 10
checkpoint
#> Checkpoint 1 at work
finish
#> ! round 1
#> Value returned is
#> = 55
continue
#> round 1: 55
#> ! round 2
#> work (n=20)
print total
#> = 55
rollback
#> ! round
#> work (n=10)
print total
#> = 0
continue
#> ! round
#> ! begin
#> work (n=20)
print total
#> = 55
continue
#> the program has gone on live
#> round 2: 210
#> work (n=30)
info checkpoints
#> 1
#> work
rollback 1
#> work (n=10)
discard 1
#> Deleted checkpoint 1.
info checkpoints
#> No checkpoints.
rollback
#> there is no checkpoint
delete
continue
#> ! round 1
#> ! round 2
#> round 3: 465
#> end 730
#> exited with status 7
