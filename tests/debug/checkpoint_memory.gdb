# With hardly any memory for checkpoints all places are reached as before.
# program: long.c
# args: 100000000
# replay: --checkpoint-memory 64K
info recording
#> may take 1 MiB
tbreak long.c:21
continue
watch spins
reverse-continue
#> New value = 100999999
reverse-continue
#> New value = 100999998
delete
watch phase
reverse-continue
#> New value = 1
reverse-continue
#> New value = 0
print spins
#> = 0
delete
python for event in range(1, 20): gdb.execute(f"seek {event}", to_string=True)
python for event in range(19, 0, -1): gdb.execute(f"seek {event}", to_string=True)
tbreak spin
continue
#> spin (count=1000000)
info recording
#> ~ Inside: +[0-9] checkpoints? made by themselves, with [01] MiB
