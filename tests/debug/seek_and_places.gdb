# Places: seek, back, forward, and what says where this is.
# program: calls.c
# modes: hooks no-hooks
break one
continue
print $_bis_place
#> ~ = "[0-9]+\+0x[0-9a-f]+#1"
python
place = gdb.convenience_variable("_bis_place").string()
event = int(gdb.convenience_variable("_bis_event"))
end
continue 20
print number
#> = 21
when
#> Completed event:
when-ticks
#> Current tick:
when-tid
#> Current tid:
when-end
python gdb.execute("seek " + place)
#> one
print number
#> = 1
print made
#> = 0
back
print number
#> = 21
forward
print number
#> = 1
back 2
forward 2
seek start
x/i $pc
#> mov    %rsp,%rdi
seek end
print made
#> = 200
reverse-continue
#> Breakpoint 1, one (number=200)
python gdb.execute("seek %d" % event)
python print(int(gdb.convenience_variable("_bis_event")) == event)
#> True
when
#> Completed event:
seek nonsense
#> "nonsense" is no place
seek 99999999
#> this process is recorded from event 1 to
run 99999999
seek
#> seek needs a place
back 99
#> there is nothing before that
forward
#> there is nothing behind that
