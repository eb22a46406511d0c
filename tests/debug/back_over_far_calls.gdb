# One step back, and lines back, behind a call that takes long and comes behind a loop: out of it, into it, and over it into the loop.
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
print i * 10 + (other != i)
#> = 41
reverse-next
#> far(400000);
python place = int(gdb.parse_and_eval("$pc"))
reverse-next
#> for (long j
reverse-next
#> small(other)
print j
#> = 2999
next 2
#> far(400000);
python print("same", int(gdb.parse_and_eval("$pc")) == place)
#> same True
next
#> other = i;
reverse-stepi 12
backtrace 1
#> far (rounds=400000)
reverse-stepi
backtrace 1
#> far (rounds=400000)
