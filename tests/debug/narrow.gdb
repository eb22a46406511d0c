# A 32-bit program: its registers have gdb's names and its words four bytes; threads, watchpoints and steps back work as in others.
# program: narrow.c
# cflags: -m32 -O0 -pthread
# needs: /usr/lib32/crt1.o
# modes: hooks no-hooks
handle SIGUSR1 nostop noprint
break main
continue
#> Breakpoint 1, main () at
print sizeof(long)
#> = 4
print $cs
#> = 35
break work
continue
#> hit Breakpoint 2, work
print mine
#> = 3
next
print mine
#> = 7
bt
#> work (by=
delete
break handler
continue
#> handler (signal=10)
bt
#> handler (signal=10)
#> <signal handler called>
#> main ()
reverse-finish
watch victim
reverse-continue
#> Old value = 28
#> New value = 21
reverse-continue
#> Old value = 21
#> New value = 14
bt
#> spoil (word=
#> main ()
python before = int(gdb.parse_and_eval("$eip"))
stepi
reverse-stepi
python print("same", before == int(gdb.parse_and_eval("$eip")))
#> same True
delete
break 30
continue
print half
#> = 14
print $orig_eax < 0
#> = 1
print spoil(&victim, 5)
print victim
#> = 28
info registers eip
#> <main+
catch syscall write
continue
#> call to syscall write
continue
#> returned from syscall write
print (int)$eax
#> = 38
