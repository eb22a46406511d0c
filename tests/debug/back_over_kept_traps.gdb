# A SIGTRAP that a program's tracer has kept from it changes nothing: a step from there executes the next
# instruction, and one step back from behind the int3 that has raised it leads to that.
# program: kept_traps.c
# replay: -f {fork}
handle SIGSTOP nostop
continue
#> Program received signal SIGTRAP
python trap = int(gdb.parse_and_eval("(long)&trap"))
python at = lambda what: print(what, int(gdb.parse_and_eval("$rip")) - trap)
python at("the first, at")
#> the first, at 1
stepi
python at("a step, to")
#> a step, to 3
reverse-stepi
python at("back, to")
#> back, to 1
reverse-stepi
python at("to the int3, at")
#> to the int3, at 0
continue
#> Program received signal SIGTRAP
python at("the first again, at")
#> the first again, at 1
reverse-stepi
python at("back, to")
#> back, to 0
stepi 3
python at("the second, at")
#> the second, at 4
stepi
python at("a step, to")
#> a step, to 6
reverse-stepi 3
python at("three back, to")
#> three back, to 1
