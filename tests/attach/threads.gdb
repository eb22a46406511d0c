# All threads are there from the first place on.
python print(len(gdb.selected_inferior().threads()), "threads")
#> 5 threads
# Their numbers follow those of the kernel, which may begin again from below between two of them.
thread apply all bt
#> in await (arg=0x3)
break printf
continue
#> Breakpoint 1, __printf
delete
reverse-continue
#> No more reverse-execution history.
python print(len(gdb.selected_inferior().threads()), "threads")
#> 5 threads
continue
#> (status=3)
# What bis says of it comes behind all that, in another stream.
#> it was running already, and what it did before was not recorded
