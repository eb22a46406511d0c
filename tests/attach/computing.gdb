# The first place is where the process was found; there is nothing in front of it.
python print("found in", (gdb.selected_frame().older() or gdb.selected_frame()).name())
#> found in main
info sharedlibrary
#> libc.so
process
#> (found running)
break count_alarm
continue
#> Breakpoint 1, count_alarm (signal=14)
watch alarms
continue
#> Old value = 0
#> New value = 1
delete
reverse-continue
#> No more reverse-execution history.
python print("alarms", gdb.parse_and_eval("alarms"))
#> alarms 0
continue
#> (status=7)
# What bis says of it comes behind all that, in another stream.
#> it was running already, and what it did before was not recorded
