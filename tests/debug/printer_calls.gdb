# A pretty-printer that calls a function of the program, each time in a copy: the recording stays as it is, also on the way back.
# program: callee.c
handle SIGUSR1 nostop noprint
break add if a == 20
continue
#> add (a=20, b=30)
print calls
#> = 4
python Pair = type("Pair", (), {"__init__": lambda self, value: setattr(self, "value", value), "to_string": lambda self: "sum " + str(gdb.parse_and_eval("add(%d, %d)" % (self.value["first"], self.value["second"])))})
python gdb.pretty_printers.append(lambda value: Pair(value) if str(value.type) == "struct pair" else None)
delete
print triple(7)
#> sum 21
print triple(8)
#> sum 24
print calls
#> = 4
stepi
print triple(9)
#> sum 27
reverse-stepi
#> calls++
print triple(10)
#> sum 30
print calls
#> = 4
