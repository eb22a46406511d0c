# One step back from a signal that takes effect behind a call leads in front of that call, also where the place behind the call is one
# that is known already.
# program: signals.c
handle SIGUSR1 stop
continue
#> Program received signal SIGUSR1
python at = int(gdb.parse_and_eval("$rip"))
python place = gdb.convenience_variable("_bis_place").string()
reverse-stepi
python print("in front of the call", at - int(gdb.parse_and_eval("$rip")))
#> in front of the call 2
stepi
reverse-stepi 2
python gdb.execute("seek " + place + "-1i")
python print("in front of the call", at - int(gdb.parse_and_eval("$rip")))
#> in front of the call 2
python gdb.execute("seek " + place)
python print("behind the call", at - int(gdb.parse_and_eval("$rip")))
#> behind the call 0
reverse-stepi
#> ! No more
python print("in front of the call", at - int(gdb.parse_and_eval("$rip")))
#> in front of the call 2
print handled
#> = 0
