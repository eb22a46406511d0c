# One step back from the first instruction of an executed program leads to the call that has executed it, and the next one in front of that
# call; however one has come there.
# program: again.c
# args: 0
catch exec
continue
#> Catchpoint 1 (exec'd
python first = int(gdb.convenience_variable("_bis_event"))
python entry = int(gdb.parse_and_eval("$rip"))
reverse-stepi
#> execve
python print(int(gdb.convenience_variable("_bis_event")) < first, int(gdb.convenience_variable("_bis_event")) > 1)
#> True True
x/2xb $pc-2
#> 0x0f	0x05
reverse-stepi
x/2xb $pc
#> 0x0f	0x05
stepi
python print("entered", int(gdb.parse_and_eval("$rip")) == entry)
#> entered True
# Gone to from elsewhere, with nothing that stops at an exec.
delete
seek 1
python gdb.execute("seek %d" % first)
python print("there", int(gdb.parse_and_eval("$rip")) == entry)
#> there True
stepi 3
reverse-stepi 3
python print("there again", int(gdb.parse_and_eval("$rip")) == entry)
#> there again True
reverse-stepi
#> execve
python print(int(gdb.convenience_variable("_bis_event")) < first, int(gdb.convenience_variable("_bis_event")) > 1)
#> True True
print round_number
#> = 0
seek end
python gdb.execute("seek %d" % first)
reverse-stepi
#> execve
seek 1
reverse-stepi
#> No more reverse-execution history
