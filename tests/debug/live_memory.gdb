# Checkpoints that are made by themselves take no more memory than they may: the oldest are discarded. Those that the
# user has asked for stay, and all that are listed can be gone back to.
# program: pauses.c
# args: 3
# record: --checkpoint-memory 12M
# modes: live
# status: 3
info recording
#> may take 12 MiB
break one if number == 2
continue
#> one (number=2)
checkpoint mine
#> Checkpoint 1 at mine
set checkpoint-interval 1 event
break one if number == 39
continue
#> one (number=39)
python listed = [int(line.split()[0]) for line in gdb.execute("info checkpoints", to_string=True).splitlines()[1:]]
python print("mine:", listed[0] == 1, "others:", listed[1:] == list(range(listed[1], listed[-1] + 1)))
#> mine: True others: True
# One of each round was made. Each has a megabyte that no other has.
python print("all were made:", listed[-1] >= 37, "the oldest are gone:", listed[1] > 10, "some stay:", len(listed) > 2)
#> all were made: True the oldest are gone: True some stay: True
rollback 2
#> there is no checkpoint 2
rollback 1
print rounds
#> = 1
python gdb.execute(f"rollback {listed[1]}")
print rounds > 10 && rounds < 39
#> = 1
continue
#> one (number=39)
info recording
# What they take is measured at every eighth of them.
#> ~ Inside: +[0-9]+ checkpoints? made by themselves, with ([0-9]|1[0-9]|20) MiB
delete
continue
#> all
#> exited with status 3
