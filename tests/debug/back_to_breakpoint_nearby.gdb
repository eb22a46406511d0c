# Back to a breakpoint that lies among the instructions which steps back have shown: it is the last arrival there, and its condition holds.
# program: far_calls.c
# modes: hooks no-hooks software
break behind if n == 4
continue
#> behind (n=4)
delete
reverse-finish
#> behind(i);
# gdb 13 stops at the begin of its line first; 16 and 18 go to the line before.
if $_gdb_major < 16
reverse-next
else
frame
end
#> behind(i);
reverse-next
#> other = i;
reverse-stepi 12
break mix
reverse-continue
#> mix (state=
up
print round
#> = 399999
down
reverse-continue
#> mix (state=
python state = (int(gdb.parse_and_eval("$pc")), int(gdb.parse_and_eval("$rsp")), int(gdb.parse_and_eval("state")))
python place = gdb.convenience_variable("_bis_place").string()
up
print round
#> = 399998
down
delete
reverse-stepi 3
# Its states are odd and even in turns.
break mix if (state & 1) != 0
reverse-continue
#> mix (state=
up
print round
#> = 399996
down
continue
#> mix (state=
python print("same", state == (int(gdb.parse_and_eval("$pc")), int(gdb.parse_and_eval("$rsp")), int(gdb.parse_and_eval("state"))))
#> same True
delete
next
python gdb.execute("seek " + place)
python print("same", state == (int(gdb.parse_and_eval("$pc")), int(gdb.parse_and_eval("$rsp")), int(gdb.parse_and_eval("state"))))
#> same True
reverse-stepi 20
# A task that stands at a breakpoint goes back from it.
hbreak *$pc
python here = int(gdb.parse_and_eval("$pc"))
python rounds = int(gdb.parse_and_eval("$rsp"))
reverse-continue
#> Breakpoint
python print("same", here == int(gdb.parse_and_eval("$pc")))
#> same True
continue
#> Breakpoint
python print("same", here == int(gdb.parse_and_eval("$pc")))
#> same True
